/*
 * core.h: the core of the library, which needs only the C library, libm and threads (`make MINIMAL=1`). The core
 * describes a network, plans how the network runs, and runs it. The other headers build on the core.
 */
#ifndef BRIGADE_CORE_H
#define BRIGADE_CORE_H

#include <brigade/array.h>
#include <brigade/base.h>
#include <brigade/feed.h>
#include <brigade/graph.h>
#include <brigade/kernel.h>
#include <brigade/loop.h>
#include <brigade/mesh.h>
#include <brigade/nn.h>
#include <brigade/ops.h>
#include <brigade/options.h>
#include <brigade/plan.h>
#include <brigade/plan_view.h>
#include <brigade/random.h>
#include <brigade/rate.h>
#include <brigade/schedule.h>
#include <brigade/session.h>

#endif

/*
 * brigade.h: the whole library: training and running neural networks that are split over several devices.
 *
 *     graph, ops, nn    describe a network, in blocks
 *     options, plan     say how it runs: strategy, stages, batches, memory; compile it
 *     config            the same from files that people have
 *     session           run it
 *     mesh              replicas as a grid, and groups of them
 *     checkpoint        stop, and go on later
 *     data, feed, loop  feed it, and let it run
 *     trainer           training, validation, test and prediction as loops
 *     profile           look at what it did
 */
#ifndef BRIGADE_H
#define BRIGADE_H

#include <brigade/base.h>
#include <brigade/checkpoint.h>
#include <brigade/config.h>
#include <brigade/data.h>
#include <brigade/feed.h>
#include <brigade/generate.h>
#include <brigade/gpt.h>
#include <brigade/graph.h>
#include <brigade/huggingface.h>
#include <brigade/kernel.h>
#include <brigade/loop.h>
#include <brigade/mesh.h>
#include <brigade/nn.h>
#include <brigade/ops.h>
#include <brigade/options.h>
#include <brigade/plan.h>
#include <brigade/profile.h>
#include <brigade/random.h>
#include <brigade/readers.h>
#include <brigade/safetensors.h>
#include <brigade/schedule.h>
#include <brigade/session.h>
#include <brigade/tokenizer.h>
#include <brigade/trainer.h>

#endif

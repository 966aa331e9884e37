/*
 * brigade.h: the whole library: training and running neural networks that are split over several devices.
 *
 *     graph, ops, nn    describe a network, in blocks
 *     options, plan     say how it runs: strategy, stages, batches, memory; compile it
 *     config            the same options from configuration files
 *     session           run it
 *     mesh              replicas as a grid, and groups of replicas
 *     checkpoint        stop a training and resume it later
 *     onnx              models that other frameworks have exported
 *     data, feed, loop  read data, feed devices, run
 *     trainer, watch    training, validation, test and prediction as loops; callbacks for them
 *     rate              learning rates by rule
 *     weights           save weights to files and load them
 *     profile           see where time and memory went
 *     bindings          for other languages; C++ has brigade/brigade.hpp
 */
#ifndef BRIGADE_H
#define BRIGADE_H

#include <brigade/batches.h>
#include <brigade/bindings.h>
#include <brigade/checkpoint.h>
#include <brigade/config.h>
#include <brigade/convnet.h>
#include <brigade/core.h>
#include <brigade/data.h>
#include <brigade/generate.h>
#include <brigade/gpt.h>
#include <brigade/huggingface.h>
#include <brigade/onnx.h>
#include <brigade/profile.h>
#include <brigade/readers.h>
#include <brigade/safetensors.h>
#include <brigade/score.h>
#include <brigade/tokenizer.h>
#include <brigade/topology.h>
#include <brigade/trainer.h>
#include <brigade/transport.h>
#include <brigade/watch.h>
#include <brigade/weights.h>

#endif

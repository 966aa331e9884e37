#!/bin/sh
# Predicted times of updates beside measured ones, in turns (bench/predict.c): plan.sh [TURNS [CORES]]
cd "$(dirname "$0")/.." || exit 1
make -s build/bench/predict && exec build/bench/predict "$@"

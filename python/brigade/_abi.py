"""The binary interface of the library, made from its headers by tools/make_bindings.py: not to be edited."""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int8, c_int16,
                    c_int32, c_int64, c_long, c_size_t, c_uint, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p)

VERSION = "0.1.0"

# Constants of enumerations and macros.
CONSTANTS = {
    "BG_ERROR_MESSAGE_BYTES": 4096,
    "BG_MAX_RANK": 6,
    "BG_TYPE_TEXT_BYTES": 160,
    "BG_OK": 0,
    "BG_ERROR_INVALID": 1,
    "BG_ERROR_SHAPE": 2,
    "BG_ERROR_PARSE": 3,
    "BG_ERROR_NOT_FOUND": 4,
    "BG_ERROR_MEMORY": 5,
    "BG_ERROR_BUDGET": 6,
    "BG_ERROR_UNSUPPORTED": 7,
    "BG_ERROR_IO": 8,
    "BG_ERROR_COMMUNICATION": 9,
    "BG_ERROR_TIMEOUT": 10,
    "BG_ERROR_CANCELED": 11,
    "BG_ERROR_RANGE": 12,
    "BG_ERROR_INTERNAL": 13,
    "BG_ERROR_NOT_FINITE": 14,
    "BG_DTYPE_NONE": 0,
    "BG_FLOAT32": 1,
    "BG_BFLOAT16": 2,
    "BG_FLOAT64": 3,
    "BG_INT32": 4,
    "BG_UINT8": 5,
    "BG_FLOAT16": 6,
    "BG_INT64": 7,
    "BG_DTYPE_COUNT": 8,
    "BG_MESH_NONE": 0,
    "BG_MESH_DATA": 1,
    "BG_MESH_TENSOR_1": 2,
    "BG_MESH_TENSOR_2": 4,
    "BG_MESH_TENSOR": 6,
    "BG_MESH_ALL": 7,
    "BG_RATE_CONSTANT": 0,
    "BG_RATE_LINEAR": 1,
    "BG_RATE_COSINE": 2,
    "BG_RATE_POLYNOMIAL": 3,
    "BG_RATE_ONE_CYCLE": 4,
    "BG_RATE_STEP": 5,
    "BG_RATE_INVERSE_ROOT": 6,
    "BG_RATE_PLATEAU": 7,
    "BG_RATE_KIND_COUNT": 8,
    "BG_ACTION_FORWARD": 0,
    "BG_ACTION_RECOMPUTE": 1,
    "BG_ACTION_BACKWARD": 2,
    "BG_ACTION_WEIGHTS": 3,
    "BG_ACTION_UPDATE": 4,
    "BG_ACTION_SEND": 5,
    "BG_ACTION_RECEIVE": 6,
    "BG_ACTION_LOAD": 7,
    "BG_ACTION_STORE": 8,
    "BG_ACTION_GATHER": 9,
    "BG_ACTION_REDUCE": 10,
    "BG_ACTION_HOST_IN": 11,
    "BG_ACTION_HOST_OUT": 12,
    "BG_ACTION_KIND_COUNT": 13,
    "BG_RESIDENCY_STEP": 0,
    "BG_RESIDENCY_FORWARD_BACKWARD": 1,
    "BG_RESIDENCY_VISIT": 2,
    "BG_PLACEMENT_LINE": 0,
    "BG_PLACEMENT_LOOP": 1,
    "BG_PLACEMENT_ANY": 2,
    "BG_PLACEMENT_ONE": 3,
    "BG_PLACEMENT_FOLD": 4,
    "BG_SCORE_F1": 0,
    "BG_SCORE_PRECISION": 1,
    "BG_SCORE_RECALL": 2,
    "BG_SCORE_PERPLEXITY": 3,
    "BG_SCORE_MACRO": 0,
    "BG_SCORE_MICRO": 1,
    "BG_SCORE_WEIGHTED": 2,
    "BG_SCORE_BINARY": 3,
    "BG_NO_OPERAND": 4294967295,
    "BG_DEVICE_NONE": 4294967295,
    "BG_KERNELS_FAST": 0,
    "BG_KERNELS_REFERENCE": 1,
    "BG_KERNELS_PORTABLE": 2,
    "BG_KERNELS_AVX2": 3,
    "BG_KERNELS_AVX512": 4,
    "BG_KERNELS_AVX512_BF16": 5,
    "BG_KERNELS_NEON": 6,
    "BG_INITIALIZE_CONSTANT": 0,
    "BG_INITIALIZE_UNIFORM": 1,
    "BG_INITIALIZE_NORMAL": 2,
    "BG_INITIALIZE_TRUNCATED_NORMAL": 3,
    "BG_INITIALIZE_ORTHOGONAL": 4,
    "BG_INITIALIZE_EYE": 5,
    "BG_INITIALIZE_DIRAC": 6,
    "BG_INITIALIZE_SPARSE": 7,
    "BG_ROLE_PARAMETER": 0,
    "BG_ROLE_BUFFER": 1,
    "BG_ROLE_ACCUMULATOR": 2,
    "BG_ROLE_STATE": 3,
    "BG_ROLE_HYPER": 4,
    "BG_ROLE_CARRIED": 5,
    "BG_ROLE_TRAINING": 6,
    "BG_GPT_MOST_SEQUENCES": 32,
    "BG_GPT_LOSS": 1,
    "BG_GPT_LOGITS": 2,
    "BG_GPT_ALL": 3,
    "BG_SCAN_MOST": 16,
    "BG_INTERPOLATE_NEAREST": 0,
    "BG_INTERPOLATE_LINEAR": 1,
    "BG_INTERPOLATE_CUBIC": 2,
    "BG_INTERPOLATE_AREA": 3,
    "BG_INTERPOLATION_COUNT": 4,
    "BG_COORDINATES_HALF_PIXEL": 0,
    "BG_COORDINATES_ALIGN_CORNERS": 1,
    "BG_COORDINATES_ASYMMETRIC": 2,
    "BG_COORDINATES_PYTORCH_HALF_PIXEL": 3,
    "BG_COORDINATES_COUNT": 4,
    "BG_NEAREST_FLOOR": 0,
    "BG_NEAREST_CEIL": 1,
    "BG_NEAREST_PREFER_FLOOR": 2,
    "BG_NEAREST_PREFER_CEIL": 3,
    "BG_NEAREST_COUNT": 4,
    "BG_RELU": 0,
    "BG_GELU": 1,
    "BG_GELU_TANH": 2,
    "BG_TANH": 3,
    "BG_SIGMOID": 4,
    "BG_EXP": 5,
    "BG_LOG": 6,
    "BG_SQRT": 7,
    "BG_SQUARE": 8,
    "BG_NEGATE": 9,
    "BG_ABS": 10,
    "BG_RECIPROCAL": 11,
    "BG_SILU": 12,
    "BG_MISH": 13,
    "BG_SOFTSIGN": 14,
    "BG_LOG_SIGMOID": 15,
    "BG_HARD_SWISH": 16,
    "BG_RSQRT": 17,
    "BG_LOG1P": 18,
    "BG_EXPM1": 19,
    "BG_ERF": 20,
    "BG_SIGN": 21,
    "BG_ROUND": 22,
    "BG_FLOOR": 23,
    "BG_CEIL": 24,
    "BG_TRUNC": 25,
    "BG_SIN": 26,
    "BG_COS": 27,
    "BG_TAN": 28,
    "BG_ASIN": 29,
    "BG_ACOS": 30,
    "BG_ATAN": 31,
    "BG_SINH": 32,
    "BG_COSH": 33,
    "BG_ASINH": 34,
    "BG_ACOSH": 35,
    "BG_ATANH": 36,
    "BG_SOFTPLUS": 37,
    "BG_ELU": 38,
    "BG_LEAKY_RELU": 39,
    "BG_HARD_SIGMOID": 40,
    "BG_CLAMP": 41,
    "BG_POWER": 42,
    "BG_UNARY_COUNT": 43,
    "BG_ADD": 0,
    "BG_SUBTRACT": 1,
    "BG_MULTIPLY": 2,
    "BG_DIVIDE": 3,
    "BG_MAXIMUM": 4,
    "BG_MINIMUM": 5,
    "BG_BINARY_COUNT": 6,
    "BG_LESS": 0,
    "BG_LESS_EQUAL": 1,
    "BG_EQUAL": 2,
    "BG_NOT_EQUAL": 3,
    "BG_GREATER": 4,
    "BG_GREATER_EQUAL": 5,
    "BG_COMPARISON_COUNT": 6,
    "BG_LOGIC_AND": 0,
    "BG_LOGIC_OR": 1,
    "BG_LOGIC_XOR": 2,
    "BG_LOGIC_COUNT": 3,
    "BG_REDUCE_SUM": 0,
    "BG_REDUCE_MEAN": 1,
    "BG_REDUCE_MAX": 2,
    "BG_REDUCTION_COUNT": 3,
    "BG_PAD_CONSTANT": 0,
    "BG_PAD_REFLECT": 1,
    "BG_PAD_REPLICATE": 2,
    "BG_PAD_CIRCULAR": 3,
    "BG_PAD_MODE_COUNT": 4,
    "BG_ROTARY_LINEAR": 0,
    "BG_ROTARY_NTK": 1,
    "BG_ROTARY_DYNAMIC_NTK": 2,
    "BG_ROTARY_YARN": 3,
    "BG_ROTARY_LLAMA3": 4,
    "BG_LOSS_MEAN": 0,
    "BG_LOSS_SUM": 1,
    "BG_LOSS_NONE": 2,
    "BG_LOSS_SQUARED": 0,
    "BG_LOSS_ABSOLUTE": 1,
    "BG_LOSS_SMOOTH_L1": 2,
    "BG_LOSS_HUBER": 3,
    "BG_LOSS_BINARY_LOGITS": 4,
    "BG_LOSS_BINARY": 5,
    "BG_LOSS_KL": 6,
    "BG_LOSS_KL_LOG": 7,
    "BG_LOSS_FUNCTION_COUNT": 8,
    "BG_OPTIMIZER_STATE_TEXT_BYTES": 80,
    "BG_STRATEGY_SINGLE": 0,
    "BG_STRATEGY_SHARDED": 1,
    "BG_STRATEGY_PIPELINED": 2,
    "BG_STRATEGY_PHASED": 3,
    "BG_AUTO_STAGE_SAME_AS_IPU": 0,
    "BG_AUTO_STAGE_INCREMENT": 1,
    "BG_ACCUMULATE_MEAN": 0,
    "BG_ACCUMULATE_SUM": 1,
    "BG_ACCUMULATE_MEAN_RUNNING": 2,
    "BG_RECOMPUTE_NONE": 0,
    "BG_RECOMPUTE_STAGE": 1,
    "BG_RECOMPUTE_CHECKPOINTS": 2,
    "BG_RECOMPUTE_FRACTION": 3,
    "BG_RECOMPUTE_AUTO": 4,
    "BG_RECOMPUTE_INTERLEAVED": 0,
    "BG_RECOMPUTE_THEN": 1,
    "BG_REPLICAS_LIKE_ACCUMULATION": 0,
    "BG_REPLICAS_MEAN": 1,
    "BG_REPLICAS_SUM": 2,
    "BG_REDUCE_IN_BACKWARD": 0,
    "BG_REDUCE_IN_UPDATE": 1,
    "BG_REDUCE_BESIDE": 2,
    "BG_GROUPING_CONSECUTIVE": 0,
    "BG_GROUPING_ORTHOGONAL": 1,
    "BG_GROUPING_ALL": 2,
    "BG_GROUPING_NONE": 3,
    "BG_ACCUMULATOR_DEFAULT": 0,
    "BG_ACCUMULATOR_SAME": 1,
    "BG_ACCUMULATOR_GIVEN": 2,
    "BG_ACCUMULATOR_CALLBACK": 3,
    "BG_OUTPUT_DEFAULT": 0,
    "BG_OUTPUT_FINAL": 1,
    "BG_OUTPUT_ALL": 2,
    "BG_OUTPUT_SUM": 3,
    "BG_OUTPUT_EVERY_N": 4,
    "BG_LOCATION_ACTIVATIONS": 0,
    "BG_LOCATION_WEIGHTS": 1,
    "BG_LOCATION_STATE": 2,
    "BG_LOCATION_ACCUMULATORS": 3,
    "BG_LOCATION_COUNT": 4,
    "BG_PLACE_DEFAULT": 0,
    "BG_PLACE_DEVICE": 1,
    "BG_PLACE_REMOTE": 2,
    "BG_LIVE_ALWAYS": 0,
    "BG_LIVE_OFF_CHIP_AFTER_FWD": 1,
    "BG_LIVE_OFF_CHIP_AFTER_FWD_NO_OVERLAP": 2,
    "BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE": 3,
    "BG_PINNING_NONE": 0,
    "BG_PINNING_COMPACT": 1,
    "BG_PINNING_SPREAD": 2,
    "BG_MEMMAP_CONTINUE": 0,
    "BG_MEMMAP_RENEW": 1,
    "BG_MEMMAP_READ_ONLY": 2,
    "BG_PRECISION_32": 0,
    "BG_PRECISION_BF16_MIXED": 1,
    "BG_PRECISION_16_MIXED": 2,
    "BG_PRECISION_BF16_TRUE": 3,
    "BG_PRECISION_16_TRUE": 4,
    "BG_WEIGHTS_FLOAT": 0,
    "BG_WEIGHTS_INT8": 1,
    "BG_WEIGHTS_INT4": 2,
    "BG_WEIGHTS_BFLOAT16": 3,
    "BG_WEIGHTS_CAST": 4,
    "BG_LOG_ERROR": 0,
    "BG_LOG_WARNING": 1,
    "BG_LOG_INFO": 2,
    "BG_LOG_DEBUG": 3,
    "BG_SGD": 0,
    "BG_ADAM": 1,
    "BG_ADAMW": 2,
    "BG_ADAMAX": 3,
    "BG_RMSPROP": 4,
    "BG_LAMB": 5,
    "BG_ADAGRAD": 6,
    "BG_ADADELTA": 7,
    "BG_CUSTOM": 8,
    "BG_UPDATE_RATE": 0,
    "BG_UPDATE_DECAY": 1,
    "BG_UPDATE_OWN": 2,
    "BG_UPDATE_SKIP": 5,
    "BG_UPDATE_SKIPPED": 6,
    "BG_UPDATE_NUMBERS": 8,
    "BG_CONFIG_NULL": 0,
    "BG_CONFIG_BOOL": 1,
    "BG_CONFIG_INTEGER": 2,
    "BG_CONFIG_REAL": 3,
    "BG_CONFIG_TEXT": 4,
    "BG_CONFIG_INTEGERS": 5,
    "BG_CONFIG_REALS": 6,
    "BG_CONFIG_MAP": 7,
    "BG_SPLIT_BLOCK_BYTES": 64,
    "BG_SERIALIZE_NONE": 0,
    "BG_SERIALIZE_INPUT_CHANNELS": 1,
    "BG_SERIALIZE_REDUCING_DIM": 2,
    "BG_SERIALIZE_OUTPUT_CHANNELS": 3,
    "BG_MEMORY_WEIGHTS": 0,
    "BG_MEMORY_GRADIENTS": 1,
    "BG_MEMORY_STATE": 2,
    "BG_MEMORY_STASH": 3,
    "BG_MEMORY_TRANSIENT": 4,
    "BG_MEMORY_STREAM": 5,
    "BG_MEMORY_WINDOW": 6,
    "BG_MEMORY_REMOTE": 7,
    "BG_MEMORY_CLASS_COUNT": 8,
    "BG_TRAFFIC_LOADED": 0,
    "BG_TRAFFIC_STORED": 1,
    "BG_TRAFFIC_REDUCED": 2,
    "BG_TRAFFIC_GATHERED": 3,
    "BG_TRAFFIC_COUNT": 4,
    "BG_CONVNET_LOGITS": 1,
    "BG_CONVNET_LOSS": 2,
    "BG_CONVNET_CORRECT": 4,
    "BG_CONVNET_ALL": 7,
    "BG_LOOP_MOST_CARRIED": 16,
    "BG_CHECKPOINT_WARN": 0,
    "BG_CHECKPOINT_IGNORE": 1,
    "BG_CHECKPOINT_REFUSE": 2,
    "BG_ENDLESS": 18446744073709551615,
    "BG_STREAM_FLAT": 0,
    "BG_STREAM_SPLIT": 1,
    "BG_INFEED_MAX_TENSORS": 16,
    "BG_GENERATION_LENGTH": 0,
    "BG_GENERATION_STOP_TOKEN": 1,
    "BG_GENERATION_STOP_STRING": 2,
    "BG_GENERATION_CALLBACK": 3,
    "BG_ONNX_PARAMETER": 0,
    "BG_ONNX_FROZEN": 1,
    "BG_ONNX_BUFFER": 2,
    "BG_ONNX_CONSTANT": 3,
    "BG_ONNX_TRAIN": 0,
    "BG_ONNX_EVAL": 1,
    "BG_ONNX_AS_WRITTEN": 2,
    "BG_WEIGHTS_LOADED": 0,
    "BG_WEIGHTS_MISSING": 1,
    "BG_WEIGHTS_UNEXPECTED": 2,
    "BG_WEIGHTS_MISFIT": 3,
    "BG_WEIGHTS_IGNORED": 4,
    "BG_WEIGHTS_OUTCOME_COUNT": 5,
    "BG_RUN_LIMIT_TEXT_BYTES": 256,
    "BG_DIGITS_ROWS": 28,
    "BG_DIGITS_COLUMNS": 28,
    "BG_DIGITS_CLASSES": 10,
    "BG_DATASET_MAX_TENSORS": 16,
    "BG_LOADER_ASYNC": 0,
    "BG_LOADER_SYNC": 1,
    "BG_LOADER_ASYNC_REBATCHED": 2,
    "BG_LOADER_MODE_COUNT": 3,
    "BG_LIMIT_UNKNOWN": 0,
    "BG_LIMIT_DEVICE": 1,
    "BG_LIMIT_DATASET": 2,
    "BG_DEVICES_AUTO": 4294967295,
    "BG_ALL_BATCHES": 18446744073709551615,
    "BG_TRAINER_FIT": 0,
    "BG_TRAINER_VALIDATE": 1,
    "BG_TRAINER_TEST": 2,
    "BG_TRAINER_PREDICT": 3,
    "BG_TRAINER_TASK_COUNT": 4,
    "BG_ON_FIT_START": 0,
    "BG_ON_FIT_END": 1,
    "BG_ON_EPOCH_START": 2,
    "BG_ON_EPOCH_END": 3,
    "BG_ON_BATCH_START": 4,
    "BG_ON_CALL_END": 5,
    "BG_ON_BATCH_END": 6,
    "BG_ON_VALIDATION_START": 7,
    "BG_ON_VALIDATION_END": 8,
    "BG_ON_TEST_START": 9,
    "BG_ON_TEST_END": 10,
    "BG_ON_PREDICT_START": 11,
    "BG_ON_PREDICT_END": 12,
    "BG_ON_SAVE_CHECKPOINT": 13,
    "BG_ON_REFUSED_UPDATE": 14,
    "BG_TRAINER_EVENT_COUNT": 15,
    "BG_ARGUMENT_VALUE": 0,
    "BG_ARGUMENT_BATCH": 1,
    "BG_ARGUMENT_EPOCH": 2,
    "BG_ARGUMENT_STEP": 3,
}

# Constants of each enumeration.
ENUMS = {
    "bg_status": ['BG_OK', 'BG_ERROR_INVALID', 'BG_ERROR_SHAPE', 'BG_ERROR_PARSE', 'BG_ERROR_NOT_FOUND', 'BG_ERROR_MEMORY', 'BG_ERROR_BUDGET', 'BG_ERROR_UNSUPPORTED', 'BG_ERROR_IO', 'BG_ERROR_COMMUNICATION', 'BG_ERROR_TIMEOUT', 'BG_ERROR_CANCELED', 'BG_ERROR_RANGE', 'BG_ERROR_INTERNAL', 'BG_ERROR_NOT_FINITE'],
    "bg_dtype": ['BG_DTYPE_NONE', 'BG_FLOAT32', 'BG_BFLOAT16', 'BG_FLOAT64', 'BG_INT32', 'BG_UINT8', 'BG_FLOAT16', 'BG_INT64', 'BG_DTYPE_COUNT'],
    "bg_mesh_axis": ['BG_MESH_NONE', 'BG_MESH_DATA', 'BG_MESH_TENSOR_1', 'BG_MESH_TENSOR_2', 'BG_MESH_TENSOR', 'BG_MESH_ALL'],
    "bg_rate_kind": ['BG_RATE_CONSTANT', 'BG_RATE_LINEAR', 'BG_RATE_COSINE', 'BG_RATE_POLYNOMIAL', 'BG_RATE_ONE_CYCLE', 'BG_RATE_STEP', 'BG_RATE_INVERSE_ROOT', 'BG_RATE_PLATEAU', 'BG_RATE_KIND_COUNT'],
    "bg_action_kind": ['BG_ACTION_FORWARD', 'BG_ACTION_RECOMPUTE', 'BG_ACTION_BACKWARD', 'BG_ACTION_WEIGHTS', 'BG_ACTION_UPDATE', 'BG_ACTION_SEND', 'BG_ACTION_RECEIVE', 'BG_ACTION_LOAD', 'BG_ACTION_STORE', 'BG_ACTION_GATHER', 'BG_ACTION_REDUCE', 'BG_ACTION_HOST_IN', 'BG_ACTION_HOST_OUT', 'BG_ACTION_KIND_COUNT'],
    "bg_residency": ['BG_RESIDENCY_STEP', 'BG_RESIDENCY_FORWARD_BACKWARD', 'BG_RESIDENCY_VISIT'],
    "bg_placement": ['BG_PLACEMENT_LINE', 'BG_PLACEMENT_LOOP', 'BG_PLACEMENT_ANY', 'BG_PLACEMENT_ONE', 'BG_PLACEMENT_FOLD'],
    "bg_score_kind": ['BG_SCORE_F1', 'BG_SCORE_PRECISION', 'BG_SCORE_RECALL', 'BG_SCORE_PERPLEXITY'],
    "bg_score_average": ['BG_SCORE_MACRO', 'BG_SCORE_MICRO', 'BG_SCORE_WEIGHTED', 'BG_SCORE_BINARY'],
    "bg_kernel_policy": ['BG_KERNELS_FAST', 'BG_KERNELS_REFERENCE', 'BG_KERNELS_PORTABLE', 'BG_KERNELS_AVX2', 'BG_KERNELS_AVX512', 'BG_KERNELS_AVX512_BF16', 'BG_KERNELS_NEON'],
    "bg_initializer_kind": ['BG_INITIALIZE_CONSTANT', 'BG_INITIALIZE_UNIFORM', 'BG_INITIALIZE_NORMAL', 'BG_INITIALIZE_TRUNCATED_NORMAL', 'BG_INITIALIZE_ORTHOGONAL', 'BG_INITIALIZE_EYE', 'BG_INITIALIZE_DIRAC', 'BG_INITIALIZE_SPARSE'],
    "bg_variable_role": ['BG_ROLE_PARAMETER', 'BG_ROLE_BUFFER', 'BG_ROLE_ACCUMULATOR', 'BG_ROLE_STATE', 'BG_ROLE_HYPER', 'BG_ROLE_CARRIED', 'BG_ROLE_TRAINING'],
    "bg_interpolation": ['BG_INTERPOLATE_NEAREST', 'BG_INTERPOLATE_LINEAR', 'BG_INTERPOLATE_CUBIC', 'BG_INTERPOLATE_AREA', 'BG_INTERPOLATION_COUNT'],
    "bg_coordinates": ['BG_COORDINATES_HALF_PIXEL', 'BG_COORDINATES_ALIGN_CORNERS', 'BG_COORDINATES_ASYMMETRIC', 'BG_COORDINATES_PYTORCH_HALF_PIXEL', 'BG_COORDINATES_COUNT'],
    "bg_nearest": ['BG_NEAREST_FLOOR', 'BG_NEAREST_CEIL', 'BG_NEAREST_PREFER_FLOOR', 'BG_NEAREST_PREFER_CEIL', 'BG_NEAREST_COUNT'],
    "bg_unary": ['BG_RELU', 'BG_GELU', 'BG_GELU_TANH', 'BG_TANH', 'BG_SIGMOID', 'BG_EXP', 'BG_LOG', 'BG_SQRT', 'BG_SQUARE', 'BG_NEGATE', 'BG_ABS', 'BG_RECIPROCAL', 'BG_SILU', 'BG_MISH', 'BG_SOFTSIGN', 'BG_LOG_SIGMOID', 'BG_HARD_SWISH', 'BG_RSQRT', 'BG_LOG1P', 'BG_EXPM1', 'BG_ERF', 'BG_SIGN', 'BG_ROUND', 'BG_FLOOR', 'BG_CEIL', 'BG_TRUNC', 'BG_SIN', 'BG_COS', 'BG_TAN', 'BG_ASIN', 'BG_ACOS', 'BG_ATAN', 'BG_SINH', 'BG_COSH', 'BG_ASINH', 'BG_ACOSH', 'BG_ATANH', 'BG_SOFTPLUS', 'BG_ELU', 'BG_LEAKY_RELU', 'BG_HARD_SIGMOID', 'BG_CLAMP', 'BG_POWER', 'BG_UNARY_COUNT'],
    "bg_binary": ['BG_ADD', 'BG_SUBTRACT', 'BG_MULTIPLY', 'BG_DIVIDE', 'BG_MAXIMUM', 'BG_MINIMUM', 'BG_BINARY_COUNT'],
    "bg_comparison": ['BG_LESS', 'BG_LESS_EQUAL', 'BG_EQUAL', 'BG_NOT_EQUAL', 'BG_GREATER', 'BG_GREATER_EQUAL', 'BG_COMPARISON_COUNT'],
    "bg_logic": ['BG_LOGIC_AND', 'BG_LOGIC_OR', 'BG_LOGIC_XOR', 'BG_LOGIC_COUNT'],
    "bg_reduction": ['BG_REDUCE_SUM', 'BG_REDUCE_MEAN', 'BG_REDUCE_MAX', 'BG_REDUCTION_COUNT'],
    "bg_pad_mode": ['BG_PAD_CONSTANT', 'BG_PAD_REFLECT', 'BG_PAD_REPLICATE', 'BG_PAD_CIRCULAR', 'BG_PAD_MODE_COUNT'],
    "bg_rotary_scaling": ['BG_ROTARY_LINEAR', 'BG_ROTARY_NTK', 'BG_ROTARY_DYNAMIC_NTK', 'BG_ROTARY_YARN', 'BG_ROTARY_LLAMA3'],
    "bg_loss_reduction": ['BG_LOSS_MEAN', 'BG_LOSS_SUM', 'BG_LOSS_NONE'],
    "bg_pointwise_loss_function": ['BG_LOSS_SQUARED', 'BG_LOSS_ABSOLUTE', 'BG_LOSS_SMOOTH_L1', 'BG_LOSS_HUBER', 'BG_LOSS_BINARY_LOGITS', 'BG_LOSS_BINARY', 'BG_LOSS_KL', 'BG_LOSS_KL_LOG', 'BG_LOSS_FUNCTION_COUNT'],
    "bg_strategy": ['BG_STRATEGY_SINGLE', 'BG_STRATEGY_SHARDED', 'BG_STRATEGY_PIPELINED', 'BG_STRATEGY_PHASED'],
    "bg_auto_stage": ['BG_AUTO_STAGE_SAME_AS_IPU', 'BG_AUTO_STAGE_INCREMENT'],
    "bg_accumulation": ['BG_ACCUMULATE_MEAN', 'BG_ACCUMULATE_SUM', 'BG_ACCUMULATE_MEAN_RUNNING'],
    "bg_recompute": ['BG_RECOMPUTE_NONE', 'BG_RECOMPUTE_STAGE', 'BG_RECOMPUTE_CHECKPOINTS', 'BG_RECOMPUTE_FRACTION', 'BG_RECOMPUTE_AUTO'],
    "bg_recompute_order": ['BG_RECOMPUTE_INTERLEAVED', 'BG_RECOMPUTE_THEN'],
    "bg_replica_reduction": ['BG_REPLICAS_LIKE_ACCUMULATION', 'BG_REPLICAS_MEAN', 'BG_REPLICAS_SUM'],
    "bg_reduce_time": ['BG_REDUCE_IN_BACKWARD', 'BG_REDUCE_IN_UPDATE', 'BG_REDUCE_BESIDE'],
    "bg_grouping": ['BG_GROUPING_CONSECUTIVE', 'BG_GROUPING_ORTHOGONAL', 'BG_GROUPING_ALL', 'BG_GROUPING_NONE'],
    "bg_accumulator_type": ['BG_ACCUMULATOR_DEFAULT', 'BG_ACCUMULATOR_SAME', 'BG_ACCUMULATOR_GIVEN', 'BG_ACCUMULATOR_CALLBACK'],
    "bg_output_mode": ['BG_OUTPUT_DEFAULT', 'BG_OUTPUT_FINAL', 'BG_OUTPUT_ALL', 'BG_OUTPUT_SUM', 'BG_OUTPUT_EVERY_N'],
    "bg_location_class": ['BG_LOCATION_ACTIVATIONS', 'BG_LOCATION_WEIGHTS', 'BG_LOCATION_STATE', 'BG_LOCATION_ACCUMULATORS', 'BG_LOCATION_COUNT'],
    "bg_place": ['BG_PLACE_DEFAULT', 'BG_PLACE_DEVICE', 'BG_PLACE_REMOTE'],
    "bg_phase_liveness": ['BG_LIVE_ALWAYS', 'BG_LIVE_OFF_CHIP_AFTER_FWD', 'BG_LIVE_OFF_CHIP_AFTER_FWD_NO_OVERLAP', 'BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE'],
    "bg_pinning": ['BG_PINNING_NONE', 'BG_PINNING_COMPACT', 'BG_PINNING_SPREAD'],
    "bg_memmap_mode": ['BG_MEMMAP_CONTINUE', 'BG_MEMMAP_RENEW', 'BG_MEMMAP_READ_ONLY'],
    "bg_precision": ['BG_PRECISION_32', 'BG_PRECISION_BF16_MIXED', 'BG_PRECISION_16_MIXED', 'BG_PRECISION_BF16_TRUE', 'BG_PRECISION_16_TRUE'],
    "bg_weights_type": ['BG_WEIGHTS_FLOAT', 'BG_WEIGHTS_INT8', 'BG_WEIGHTS_INT4', 'BG_WEIGHTS_BFLOAT16', 'BG_WEIGHTS_CAST'],
    "bg_log_level": ['BG_LOG_ERROR', 'BG_LOG_WARNING', 'BG_LOG_INFO', 'BG_LOG_DEBUG'],
    "bg_optimizer_kind": ['BG_SGD', 'BG_ADAM', 'BG_ADAMW', 'BG_ADAMAX', 'BG_RMSPROP', 'BG_LAMB', 'BG_ADAGRAD', 'BG_ADADELTA', 'BG_CUSTOM'],
    "bg_config_kind": ['BG_CONFIG_NULL', 'BG_CONFIG_BOOL', 'BG_CONFIG_INTEGER', 'BG_CONFIG_REAL', 'BG_CONFIG_TEXT', 'BG_CONFIG_INTEGERS', 'BG_CONFIG_REALS', 'BG_CONFIG_MAP'],
    "bg_serialize_mode": ['BG_SERIALIZE_NONE', 'BG_SERIALIZE_INPUT_CHANNELS', 'BG_SERIALIZE_REDUCING_DIM', 'BG_SERIALIZE_OUTPUT_CHANNELS'],
    "bg_memory_class": ['BG_MEMORY_WEIGHTS', 'BG_MEMORY_GRADIENTS', 'BG_MEMORY_STATE', 'BG_MEMORY_STASH', 'BG_MEMORY_TRANSIENT', 'BG_MEMORY_STREAM', 'BG_MEMORY_WINDOW', 'BG_MEMORY_REMOTE', 'BG_MEMORY_CLASS_COUNT'],
    "bg_plan_traffic": ['BG_TRAFFIC_LOADED', 'BG_TRAFFIC_STORED', 'BG_TRAFFIC_REDUCED', 'BG_TRAFFIC_GATHERED', 'BG_TRAFFIC_COUNT'],
    "bg_checkpoint_differences": ['BG_CHECKPOINT_WARN', 'BG_CHECKPOINT_IGNORE', 'BG_CHECKPOINT_REFUSE'],
    "bg_stream_form": ['BG_STREAM_FLAT', 'BG_STREAM_SPLIT'],
    "bg_generation_end": ['BG_GENERATION_LENGTH', 'BG_GENERATION_STOP_TOKEN', 'BG_GENERATION_STOP_STRING', 'BG_GENERATION_CALLBACK'],
    "bg_onnx_use": ['BG_ONNX_PARAMETER', 'BG_ONNX_FROZEN', 'BG_ONNX_BUFFER', 'BG_ONNX_CONSTANT'],
    "bg_onnx_mode": ['BG_ONNX_TRAIN', 'BG_ONNX_EVAL', 'BG_ONNX_AS_WRITTEN'],
    "bg_weights_outcome": ['BG_WEIGHTS_LOADED', 'BG_WEIGHTS_MISSING', 'BG_WEIGHTS_UNEXPECTED', 'BG_WEIGHTS_MISFIT', 'BG_WEIGHTS_IGNORED', 'BG_WEIGHTS_OUTCOME_COUNT'],
    "bg_loader_mode": ['BG_LOADER_ASYNC', 'BG_LOADER_SYNC', 'BG_LOADER_ASYNC_REBATCHED', 'BG_LOADER_MODE_COUNT'],
    "bg_run_limit": ['BG_LIMIT_UNKNOWN', 'BG_LIMIT_DEVICE', 'BG_LIMIT_DATASET'],
    "bg_trainer_task": ['BG_TRAINER_FIT', 'BG_TRAINER_VALIDATE', 'BG_TRAINER_TEST', 'BG_TRAINER_PREDICT', 'BG_TRAINER_TASK_COUNT'],
    "bg_trainer_event_kind": ['BG_ON_FIT_START', 'BG_ON_FIT_END', 'BG_ON_EPOCH_START', 'BG_ON_EPOCH_END', 'BG_ON_BATCH_START', 'BG_ON_CALL_END', 'BG_ON_BATCH_END', 'BG_ON_VALIDATION_START', 'BG_ON_VALIDATION_END', 'BG_ON_TEST_START', 'BG_ON_TEST_END', 'BG_ON_PREDICT_START', 'BG_ON_PREDICT_END', 'BG_ON_SAVE_CHECKPOINT', 'BG_ON_REFUSED_UPDATE', 'BG_TRAINER_EVENT_COUNT'],
    "bg_trainer_argument_kind": ['BG_ARGUMENT_VALUE', 'BG_ARGUMENT_BATCH', 'BG_ARGUMENT_EPOCH', 'BG_ARGUMENT_STEP'],
}


class bg_error(Structure):
    pass


class bg_allocator(Structure):
    pass


class bg_type(Structure):
    pass


class bg_array(Structure):
    pass


class bg_mesh(Structure):
    pass


class bg_replica_group(Structure):
    pass


class bg_shard_dim(Structure):
    pass


class bg_shard(Structure):
    pass


class bg_rate_schedule(Structure):
    pass


class bg_safetensors_entry(Structure):
    pass


class bg_safetensors_metadata(Structure):
    pass


class bg_action(Structure):
    pass


class bg_schedule_edge(Structure):
    pass


class bg_schedule_buffer(Structure):
    pass


class bg_stage_cost(Structure):
    pass


class bg_schedule_problem(Structure):
    pass


class bg_schedule_generator(Structure):
    pass


class bg_schedule_event(Structure):
    pass


class bg_schedule_timing(Structure):
    pass


class bg_schedule_svg_options(Structure):
    pass


class bg_score(Structure):
    pass


class bg_token_list(Structure):
    pass


class bg_transport(Structure):
    pass


class bg_kernel_env(Structure):
    pass


class bg_kernel_call(Structure):
    pass


class bg_kernel(Structure):
    pass


class bg_cost(Structure):
    pass


class bg_value(Structure):
    pass


class bg_op_signature(Structure):
    pass


class bg_op_gradient(Structure):
    pass


class bg_op_type(Structure):
    pass


class bg_initializer(Structure):
    pass


class bg_section(Structure):
    pass


class bg_gpt_options(Structure):
    pass


class bg_gpt(Structure):
    pass


class bg_conv2d_options(Structure):
    pass


class bg_conv_options(Structure):
    pass


class bg_pool2d_options(Structure):
    pass


class bg_pool_options(Structure):
    pass


class bg_interpolate_options(Structure):
    pass


class bg_attention_options(Structure):
    pass


class bg_dot_product_attention_options(Structure):
    pass


class bg_rotary_options(Structure):
    pass


class bg_scan_step(Structure):
    pass


class bg_scan_options(Structure):
    pass


class bg_gradient_check_options(Structure):
    pass


class bg_device_model(Structure):
    pass


class bg_block_cost(Structure):
    pass


class bg_output_request(Structure):
    pass


class bg_tensor_location(Structure):
    pass


class bg_location_rule(Structure):
    pass


class bg_auto_loss_scaling(Structure):
    pass


class bg_execution_options(Structure):
    pass


class bg_memory_options(Structure):
    pass


class bg_replicas_options(Structure):
    pass


class bg_numerics_options(Structure):
    pass


class bg_files_options(Structure):
    pass


class bg_reporting_options(Structure):
    pass


class bg_options(Structure):
    pass


class bg_update_rule(Structure):
    pass


class bg_optimizer(Structure):
    pass


class bg_config_value(Structure):
    pass


class bg_ipu_config_load_options(Structure):
    pass


class bg_ipu_model(Structure):
    pass


class bg_ipu_options(Structure):
    pass


class bg_recurrent_options(Structure):
    pass


class bg_split_placement(Structure):
    pass


class bg_parallel_linear_options(Structure):
    pass


class bg_plan_summary(Structure):
    pass


class bg_convnet_options(Structure):
    pass


class bg_convnet(Structure):
    pass


class bg_loop(Structure):
    pass


class bg_plan_variable(Structure):
    pass


class bg_plan_block(Structure):
    pass


class bg_plan_edge(Structure):
    pass


class bg_plan_instruction(Structure):
    pass


class bg_weight(Structure):
    pass


class bg_quantized(Structure):
    pass


class bg_stream(Structure):
    pass


class bg_trace_event(Structure):
    pass


class bg_checkpoint_save_options(Structure):
    pass


class bg_checkpoint_load_options(Structure):
    pass


class bg_checkpoint(Structure):
    pass


class bg_infeed_options(Structure):
    pass


class bg_sample_source(Structure):
    pass


class bg_outfeed_options(Structure):
    pass


class bg_outfeed_leaf(Structure):
    pass


class bg_run(Structure):
    pass


class bg_sampling(Structure):
    pass


class bg_generation_prompt(Structure):
    pass


class bg_generation_token(Structure):
    pass


class bg_generation_options(Structure):
    pass


class bg_generation(Structure):
    pass


class bg_onnx_dim(Structure):
    pass


class bg_onnx_port(Structure):
    pass


class bg_onnx_node(Structure):
    pass


class bg_onnx_weight(Structure):
    pass


class bg_onnx_problem(Structure):
    pass


class bg_onnx_contents(Structure):
    pass


class bg_onnx_size(Structure):
    pass


class bg_onnx_fixed(Structure):
    pass


class bg_onnx_options(Structure):
    pass


class bg_onnx_save_options(Structure):
    pass


class bg_onnx_saved(Structure):
    pass


class bg_costs(Structure):
    pass


class bg_profile_notes(Structure):
    pass


class bg_weights_rename(Structure):
    pass


class bg_weights_load_options(Structure):
    pass


class bg_weights_result(Structure):
    pass


class bg_weights_report(Structure):
    pass


class bg_weights_save_options(Structure):
    pass


class bg_image_set(Structure):
    pass


class bg_mnist_download_options(Structure):
    pass


class bg_digits_options(Structure):
    pass


class bg_dataset_options(Structure):
    pass


class bg_dataset_map_options(Structure):
    pass


class bg_normalize_options(Structure):
    pass


class bg_convert_options(Structure):
    pass


class bg_stream_shard(Structure):
    pass


class bg_sample_stream(Structure):
    pass


class bg_loader_options(Structure):
    pass


class bg_batch(Structure):
    pass


class bg_loader_statistics(Structure):
    pass


class bg_benchmark_options(Structure):
    pass


class bg_npz(Structure):
    pass


class bg_tokens_options(Structure):
    pass


class bg_csv_options(Structure):
    pass


class bg_ipu_strategy(Structure):
    pass


class bg_trainer_call(Structure):
    pass


class bg_trainer_event(Structure):
    pass


class bg_trainer_callback(Structure):
    pass


class bg_trainer_argument(Structure):
    pass


class bg_trainer_options(Structure):
    pass


class bg_trainer_data(Structure):
    pass


class bg_trainer_metric(Structure):
    pass


class bg_watch(Structure):
    pass


class bg_average(Structure):
    pass


bg_error._fields_ = [
    ("status", c_int),
    ("message", c_char * 4096),
]
bg_stop_function = CFUNCTYPE(c_bool, c_void_p)
bg_progress_function = CFUNCTYPE(c_bool, c_void_p, c_char_p, c_uint64, c_uint64)
bg_allocator._fields_ = [
    ("allocate", CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_size_t)),
    ("release", CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)),
    ("user", c_void_p),
]
bg_type._fields_ = [
    ("dtype", c_int),
    ("rank", c_uint32),
    ("dims", c_int64 * 6),
]
bg_array._fields_ = [
    ("type", bg_type),
    ("data", c_void_p),
]
bg_mesh._fields_ = [
    ("data", c_uint32),
    ("tensor_1", c_uint32),
    ("tensor_2", c_uint32),
]
bg_replica_group._fields_ = [
    ("size", c_uint32),
    ("stride", c_uint32),
]
bg_shard_dim._fields_ = [
    ("axis", c_int),
    ("blocks", c_uint32),
    ("multiple", c_uint32),
]
bg_shard._fields_ = [
    ("whole", bg_type),
    ("dims", bg_shard_dim * 6),
]
bg_rate_schedule._fields_ = [
    ("struct_bytes", c_size_t),
    ("kind", c_int),
    ("rate", c_double),
    ("warmup", c_uint64),
    ("start", c_double),
    ("steps", c_uint64),
    ("final", c_double),
    ("power", c_double),
    ("factor", c_double),
    ("period", c_uint64),
    ("patience", c_uint64),
    ("cooldown", c_uint64),
    ("threshold", c_double),
    ("scale", c_double),
    ("best", c_double),
    ("bad_reports", c_uint64),
    ("resting", c_uint64),
]
bg_safetensors_entry._fields_ = [
    ("name", c_char_p),
    ("type", bg_type),
    ("data", c_void_p),
]
bg_safetensors_metadata._fields_ = [
    ("key", c_char_p),
    ("value", c_char_p),
]
bg_safetensors_fetch = CFUNCTYPE(c_int, c_void_p, POINTER(bg_safetensors_entry), POINTER(c_void_p), POINTER(bg_error))
bg_action._fields_ = [
    ("kind", c_int),
    ("stage", c_uint32),
    ("micro_batch", c_uint32),
    ("index", c_uint32),
]
bg_schedule_edge._fields_ = [
    ("from_kind", c_int),
    ("from_stage", c_uint32),
    ("from_level", c_uint32),
    ("to_kind", c_int),
    ("last_kind", c_int),
    ("to_stage", c_uint32),
    ("to_level", c_uint32),
    ("size_bytes", c_size_t),
    ("slot_bytes", c_size_t),
]
bg_schedule_buffer._fields_ = [
    ("stage", c_uint32),
    ("reads", c_uint32),
    ("writes", c_uint32),
    ("update_levels", c_uint32),
    ("starts_fresh", c_bool),
    ("residency", c_int),
    ("preload", c_bool),
    ("per_micro_batch", c_bool),
    ("edge", c_uint32),
    ("slots", c_uint32),
    ("shares_store", c_bool),
    ("store_of", c_uint32),
    ("size_bytes", c_size_t),
    ("store_bytes", c_size_t),
]
bg_stage_cost._fields_ = [
    ("forward_ns", c_double),
    ("backward_ns", c_double),
    ("weights_ns", c_double),
    ("update_ns", c_double),
    ("recompute_ns", c_double),
]
bg_schedule_problem._fields_ = [
    ("struct_bytes", c_size_t),
    ("stage_count", c_uint32),
    ("device_count", c_uint32),
    ("stage_devices", POINTER(c_uint32)),
    ("stage_positions", POINTER(c_uint32)),
    ("stage_phases", POINTER(c_uint32)),
    ("micro_batch_count", c_uint32),
    ("training", c_bool),
    ("splits_weights", c_bool),
    ("merges_loss", c_bool),
    ("update_level_count", c_uint32),
    ("is_strict", c_bool),
    ("reduces_gradients", c_bool),
    ("reduces_in_backward", c_bool),
    ("keeps_for_sums", c_bool),
    ("stage_gathers", POINTER(c_bool)),
    ("edges", POINTER(bg_schedule_edge)),
    ("edge_count", c_uint32),
    ("buffers", POINTER(bg_schedule_buffer)),
    ("buffer_count", c_uint32),
    ("remote_bytes_per_ns", c_double),
    ("stage_host_in", POINTER(c_bool)),
    ("stage_host_out", POINTER(c_bool)),
    ("stage_recomputes", POINTER(c_bool)),
    ("costs", POINTER(bg_stage_cost)),
    ("bytes_per_ns", c_double),
    ("send_ahead", c_uint32),
    ("device_slot_bytes", POINTER(c_size_t)),
    ("stop", bg_stop_function),
    ("stop_user", c_void_p),
]
bg_schedule_generator._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char_p),
    ("summary", c_char_p),
    ("generate", CFUNCTYPE(c_int, POINTER(bg_schedule_problem), c_void_p, POINTER(bg_error))),
    ("minimum_micro_batches", CFUNCTYPE(c_uint32, c_uint32, c_bool)),
    ("placement", c_int),
    ("splits_weights", c_bool),
    ("one_at_a_time", c_bool),
]
bg_schedule_event._fields_ = [
    ("action", bg_action),
    ("device", c_uint32),
    ("start", c_double),
    ("end", c_double),
]
bg_schedule_timing._fields_ = [
    ("makespan", c_double),
    ("bubble", c_double),
    ("device_busy", POINTER(c_double)),
    ("events", POINTER(bg_schedule_event)),
    ("event_count", c_size_t),
]
bg_schedule_svg_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("title", c_char_p),
    ("shows_messages", c_bool),
    ("width", c_uint32),
]
bg_score._fields_ = [
    ("name", c_char_p),
    ("output", c_char_p),
    ("kind", c_int),
    ("average", c_int),
    ("class_index", c_uint32),
]
bg_token_list._fields_ = [
    ("items", POINTER(c_uint32)),
    ("count", c_size_t),
    ("capacity", c_size_t),
]
bg_transport._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char_p),
    ("rank", c_uint32),
    ("rank_count", c_uint32),
    ("hosts", POINTER(c_uint32)),
    ("tag_count", c_uint32),
    ("message_bytes", c_size_t),
    ("eager_bytes", c_size_t),
    ("takes_any_thread", c_bool),
    ("agreed", c_char_p),
    ("user", c_void_p),
    ("open", CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(bg_error))),
    ("close", CFUNCTYPE(None, c_void_p, c_void_p)),
    ("send", CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint32, c_uint32, c_void_p, c_size_t, c_void_p, POINTER(bg_error))),
    ("receive", CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint32, c_uint32, c_void_p, c_size_t, c_void_p, POINTER(bg_error))),
    ("poll", CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_void_p), c_uint32, POINTER(c_uint32), POINTER(bg_error))),
]
bg_kernel_env._fields_ = [
    ("seed", c_uint64),
    ("step", c_uint64),
    ("optimizer_step", c_uint64),
    ("micro_batch", c_uint32),
    ("place", bg_mesh),
    ("accumulated", c_uint32),
    ("training", c_bool),
]
bg_kernel_call._fields_ = [
    ("types", POINTER(bg_type)),
    ("operands", POINTER(c_void_p)),
    ("input_count", c_uint32),
    ("output_count", c_uint32),
    ("attributes", c_void_p),
    ("scratch", c_void_p),
    ("env", POINTER(bg_kernel_env)),
    ("state", c_void_p),
    ("runner", c_uint32),
]
bg_kernel_function = CFUNCTYPE(None, POINTER(bg_kernel_call), c_uint32)
bg_kernel._fields_ = [
    ("name", c_char_p),
    ("prepare", CFUNCTYPE(None, POINTER(bg_kernel_call))),
    ("run", bg_kernel_function),
    ("combine", bg_kernel_function),
    ("finish", CFUNCTYPE(None, POINTER(bg_kernel_call))),
    ("part_count", c_uint32),
    ("combine_count", c_uint32),
    ("scratch_bytes", c_size_t),
    ("state", c_void_p),
    ("destroy", CFUNCTYPE(None, c_void_p)),
]
bg_cost._fields_ = [
    ("flops", c_double),
    ("bytes_read", c_double),
    ("bytes_written", c_double),
]
bg_value._fields_ = [
    ("id", c_uint32),
]
bg_op_signature._fields_ = [
    ("name", c_char_p),
    ("types", POINTER(bg_type)),
    ("input_count", c_uint32),
    ("output_count", c_uint32),
    ("attributes", c_void_p),
    ("partials", c_int),
    ("scratch_limit", c_size_t),
]
bg_op_gradient._fields_ = [
    ("graph", c_void_p),
    ("op", bg_op_signature),
    ("inputs", POINTER(bg_value)),
    ("outputs", POINTER(bg_value)),
    ("output_gradients", POINTER(bg_value)),
    ("needs", POINTER(c_bool)),
    ("input_gradients", POINTER(bg_value)),
]
bg_op_type._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char_p),
    ("minimum_inputs", c_uint32),
    ("maximum_inputs", c_uint32),
    ("output_count", c_uint32),
    ("attributes_bytes", c_size_t),
    ("written_inputs", c_uint32),
    ("alias_input", c_uint32),
    ("reuse_input", c_uint32),
    ("weight_output", c_uint32),
    ("infer", CFUNCTYPE(c_int, POINTER(bg_op_signature), POINTER(bg_type), POINTER(bg_error))),
    ("gradient", CFUNCTYPE(c_int, POINTER(bg_op_gradient), POINTER(bg_error))),
    ("cost", c_void_p),
    ("kernel", CFUNCTYPE(c_int, POINTER(bg_op_signature), c_int, POINTER(bg_kernel), POINTER(bg_error))),
    ("accumulating", POINTER(bg_op_type)),
    ("revision", c_uint32),
    ("is_collective", c_bool),
    ("training_writes", c_uint32),
    ("is_elementwise_update", c_bool),
]
bg_initializer._fields_ = [
    ("kind", c_int),
    ("a", c_double),
    ("b", c_double),
]
bg_section._fields_ = [
    ("name", c_char_p),
    ("whole", bg_type),
    ("axis", c_uint32),
    ("first", c_int64),
    ("count", c_int64),
]
bg_gpt_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("layers", c_int64),
    ("hidden", c_int64),
    ("heads", c_int64),
    ("sequence_length", c_int64),
    ("positions", c_int64),
    ("vocabulary", c_int64),
    ("micro_batch", c_int64),
    ("dropout", c_double),
    ("dtype", c_int),
    ("ignore_label", c_int64),
    ("attention_serialization", c_int64),
    ("outputs", c_uint32),
    ("checkpoint_layers", c_bool),
]
bg_gpt._fields_ = [
    ("tokens", bg_value),
    ("labels", bg_value),
    ("logits", bg_value),
    ("loss", bg_value),
    ("positions", bg_value),
    ("row", bg_value),
]
bg_conv2d_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("stride", c_int64 * 2),
    ("padding", c_int64 * 2),
    ("dilation", c_int64 * 2),
    ("groups", c_int64),
]
bg_conv_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("stride", c_int64 * 3),
    ("padding", c_int64 * 3),
    ("dilation", c_int64 * 3),
    ("output_padding", c_int64 * 3),
    ("groups", c_int64),
]
bg_pool2d_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("kernel", c_int64 * 2),
    ("stride", c_int64 * 2),
    ("padding", c_int64 * 2),
    ("dilation", c_int64 * 2),
    ("ceil_mode", c_bool),
    ("count_include_pad", c_bool),
]
bg_pool_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("kernel", c_int64 * 3),
    ("stride", c_int64 * 3),
    ("padding", c_int64 * 3),
    ("dilation", c_int64 * 3),
    ("ceil_mode", c_bool),
    ("count_include_pad", c_bool),
]
bg_interpolate_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("mode", c_int),
    ("coordinates", c_int),
    ("nearest", c_int),
    ("cubic", c_double),
    ("size", c_int64 * 3),
    ("scale", c_double * 3),
]
bg_attention_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("heads", c_int64),
    ("sequence_length", c_int64),
    ("causal", c_bool),
    ("scale", c_double),
    ("dropout", c_double),
    ("serialization", c_int64),
    ("axis", c_int),
]
bg_dot_product_attention_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("heads", c_int64),
    ("key_heads", c_int64),
    ("causal", c_bool),
    ("window", c_int64),
    ("offset", c_int64),
    ("scale", c_double),
    ("dropout", c_double),
    ("alibi", c_double),
    ("axis", c_int),
]
bg_rotary_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("heads", c_int64),
    ("features", c_int64),
    ("interleaved", c_bool),
    ("base", c_double),
    ("kind", c_int),
    ("scaling", c_double),
    ("trained_length", c_int64),
    ("length", c_int64),
    ("beta_fast", c_double),
    ("beta_slow", c_double),
    ("low_frequency", c_double),
    ("high_frequency", c_double),
    ("magnitude", c_double),
]
bg_scan_step._fields_ = [
    ("step", c_uint64),
    ("inputs", POINTER(bg_value)),
    ("states", POINTER(bg_value)),
    ("outputs", POINTER(bg_value)),
]
bg_scan_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("input_count", c_uint32),
    ("state_count", c_uint32),
    ("output_count", c_uint32),
    ("axis", c_int32),
    ("reverse", c_bool),
    ("truncate", c_int64),
    ("checkpoint", c_int64),
]
bg_gradient_check_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("seed", c_uint64),
    ("step", c_double),
    ("absolute_tolerance", c_double),
    ("relative_tolerance", c_double),
    ("elements_per_input", c_uint32),
    ("input_low", c_double),
    ("input_high", c_double),
    ("outputs", c_uint32),
]
bg_device_model._fields_ = [
    ("speed", c_double),
    ("memory_bytes", c_size_t),
]
bg_block_cost._fields_ = [
    ("name", c_char_p),
    ("forward_ns", c_double),
    ("backward_ns", c_double),
    ("weights_ns", c_double),
]
bg_output_request._fields_ = [
    ("output", c_char_p),
    ("name", c_char_p),
    ("mode", c_int),
    ("period", c_uint32),
]
bg_tensor_location._fields_ = [
    ("place", c_int),
    ("sharded", c_bool),
    ("minimum_elements_remote", c_size_t),
    ("minimum_elements_sharded", c_size_t),
    ("on_demand", c_bool),
]
bg_location_rule._fields_ = [
    ("classes", c_uint32),
    ("pattern", c_char_p),
    ("location", bg_tensor_location),
]
bg_auto_loss_scaling._fields_ = [
    ("enabled", c_bool),
    ("output", c_bool),
    ("bin_edge", c_double),
    ("threshold", c_double),
    ("period", c_uint32),
    ("increase", c_double),
    ("decrease", c_double),
    ("minimum", c_double),
    ("maximum", c_double),
]
bg_log_function = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
bg_execution_options._fields_ = [
    ("strategy", c_int),
    ("schedule", c_char_p),
    ("separate_loss", c_bool),
    ("strict", c_bool),
    ("stage_costs", POINTER(bg_stage_cost)),
    ("stage_cost_count", c_uint32),
    ("message_bytes_per_ns", c_double),
    ("stages", c_char_p),
    ("auto_stage", c_int),
    ("device_mapping", POINTER(c_uint32)),
    ("device_mapping_count", c_uint32),
    ("device_count", c_uint32),
    ("phases_parallel", c_bool),
    ("devices", POINTER(bg_device_model)),
    ("device_model_count", c_uint32),
    ("block_costs", POINTER(bg_block_cost)),
    ("block_cost_count", c_uint32),
    ("device_iterations", c_uint32),
    ("gradient_accumulation", c_uint32),
    ("cores", c_uint32),
    ("pinning", c_int),
    ("processor_order", CFUNCTYPE(c_uint32, c_void_p, c_int, POINTER(c_uint32), c_uint32)),
    ("processor_order_user", c_void_p),
    ("start_thread", CFUNCTYPE(c_bool, c_void_p, CFUNCTYPE(None, c_void_p), c_void_p)),
    ("start_thread_user", c_void_p),
    ("io_threads", c_int32),
    ("ipu_limits", c_bool),
    ("auto_round_devices", c_bool),
    ("wait_limit_s", c_double),
    ("compile_only", c_bool),
    ("stop", bg_stop_function),
    ("stop_user", c_void_p),
    ("transport", POINTER(bg_transport)),
    ("layout", c_char_p),
    ("planned_ranks", c_uint32),
]
bg_memory_options._fields_ = [
    ("device_memory_bytes", c_size_t),
    ("matmul_proportions", POINTER(c_double)),
    ("matmul_proportion_count", c_uint32),
    ("offload_optimizer", c_bool),
    ("locations", bg_tensor_location * 4),
    ("location_rules", POINTER(bg_location_rule)),
    ("location_rule_count", c_uint32),
    ("phase_liveness", c_int),
    ("recompute", c_int),
    ("recompute_fraction", c_double),
    ("recompute_order", c_int),
    ("no_memory_check", c_bool),
    ("allocate", CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_size_t)),
    ("release", CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)),
    ("allocator_user", c_void_p),
]
bg_replicas_options._fields_ = [
    ("count", c_uint32),
    ("total_devices", c_uint32),
    ("input_group_size", c_uint32),
    ("input_grouping", c_int),
    ("replica_reduction", c_int),
    ("reduce_time", c_int),
    ("reduce_bytes", c_size_t),
    ("synchronize_batch_norm", c_bool),
]
bg_numerics_options._fields_ = [
    ("precision", c_int),
    ("weights_type", c_int),
    ("accumulation", c_int),
    ("canonical_reductions", c_bool),
    ("accumulator_type", c_int),
    ("accumulator_dtype", c_int),
    ("choose_accumulator", CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(bg_type))),
    ("choose_accumulator_user", c_void_p),
    ("cast_gradients", c_bool),
    ("max_gradient_norm", c_double),
    ("max_gradient_value", c_double),
    ("loss_scaling", c_double),
    ("auto_loss_scaling", bg_auto_loss_scaling),
    ("guard_loss", c_bool),
    ("first_moment_dtype", c_int),
    ("second_moment_dtype", c_int),
    ("stochastic_rounding", c_bool),
    ("seed", c_uint64),
    ("kernels", c_int),
    ("partials", c_int),
    ("no_fusion", c_bool),
    ("initialize_missing", c_bool),
]
bg_files_options._fields_ = [
    ("memmap_dir", c_char_p),
    ("memmap_mode", c_int),
    ("cache_dir", c_char_p),
    ("log_dir", c_char_p),
]
bg_reporting_options._fields_ = [
    ("output_gradient_norm", c_bool),
    ("output_mode", c_int),
    ("output_period", c_uint32),
    ("output_requests", POINTER(bg_output_request)),
    ("output_request_count", c_uint32),
    ("requests_only", c_bool),
    ("trace", c_bool),
    ("trace_events", c_uint32),
    ("dump_after", c_char_p),
    ("dump", CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)),
    ("dump_user", c_void_p),
    ("log_cycles", c_bool),
    ("log", bg_log_function),
    ("log_user", c_void_p),
    ("progress", bg_progress_function),
    ("progress_user", c_void_p),
]
bg_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("execution", bg_execution_options),
    ("memory", bg_memory_options),
    ("replicas", bg_replicas_options),
    ("numerics", bg_numerics_options),
    ("files", bg_files_options),
    ("reporting", bg_reporting_options),
]
bg_update_rule._fields_ = [
    ("name", c_char_p),
    ("update", POINTER(bg_op_type)),
    ("attributes", c_void_p),
    ("states", c_char_p),
]
bg_optimizer._fields_ = [
    ("struct_bytes", c_size_t),
    ("kind", c_int),
    ("learning_rate", c_double),
    ("weight_decay", c_double),
    ("momentum", c_double),
    ("dampening", c_double),
    ("nesterov", c_bool),
    ("combined", c_bool),
    ("velocity_scaling", c_double),
    ("beta1", c_double),
    ("beta2", c_double),
    ("alpha", c_double),
    ("epsilon", c_double),
    ("max_weight_norm", c_double),
    ("uncorrected", c_bool),
    ("centered", c_bool),
    ("tf_variant", c_bool),
    ("decay_matrices_only", c_bool),
    ("rule", POINTER(bg_update_rule)),
    ("numbers", c_double * 3),
]
bg_config_value._fields_ = [
    ("kind", c_int),
    ("boolean", c_bool),
    ("integer", c_int64),
    ("real", c_double),
    ("text", c_char_p),
    ("integers", POINTER(c_int64)),
    ("reals", POINTER(c_double)),
    ("count", c_size_t),
]
bg_ipu_config_load_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("keep_unknown", c_bool),
    ("overrides", c_char_p),
]
bg_ipu_model._fields_ = [
    ("struct_bytes", c_size_t),
    ("layer_count", c_uint64),
    ("layer_blocks", POINTER(c_char_p)),
    ("embedding_block", c_char_p),
    ("head_block", c_char_p),
    ("head_is_tied", c_bool),
]
bg_ipu_options._fields_ = [
    ("options", bg_options),
    ("stages", c_char_p),
    ("cache_dir", c_char_p),
    ("matmul_proportions", POINTER(c_double)),
    ("notes", c_char_p),
]
bg_recurrent_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("layers", c_int64),
    ("bidirectional", c_bool),
    ("batch_first", c_bool),
    ("bias", c_bool),
    ("dropout", c_double),
    ("relu", c_bool),
    ("reset_first", c_bool),
    ("truncate", c_int64),
    ("checkpoint", c_int64),
    ("lengths", bg_value),
]
bg_split_placement._fields_ = [
    ("splits", POINTER(c_int64)),
    ("device_count", c_uint32),
]
bg_parallel_linear_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("in_axis", c_int),
    ("out_blocks", c_uint32),
    ("bias", c_bool),
    ("in_out", c_bool),
    ("initializer", POINTER(bg_initializer)),
]
bg_plan_summary._fields_ = [
    ("stage_count", c_uint32),
    ("device_count", c_uint32),
    ("replicas", c_uint32),
    ("micro_batch", c_uint32),
    ("micro_batches_per_step", c_uint32),
    ("steps_per_run", c_uint32),
    ("input_groups", c_uint32),
    ("samples_per_run", c_uint64),
    ("variable_count", c_uint32),
    ("block_count", c_uint32),
    ("edge_count", c_uint32),
    ("update_levels", c_uint32),
    ("compile_ms", c_double),
    ("is_cached", c_bool),
    ("idle_share", c_double),
    ("flops_per_micro_batch", c_double),
    ("recomputed_op_count", c_uint32),
    ("recompute_share", c_double),
    ("ranks", c_uint32),
    ("data_replicas", c_uint32),
    ("sums", c_uint32),
    ("sums_beside", c_uint32),
    ("bytes_not_stored", c_uint64),
]
bg_convnet_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("micro_batch", c_int64),
    ("dtype", c_int),
    ("label_dtype", c_int),
    ("ignore_label", c_int64),
    ("outputs", c_uint32),
    ("checkpoint_blocks", c_bool),
]
bg_convnet._fields_ = [
    ("images", bg_value),
    ("labels", bg_value),
    ("logits", bg_value),
    ("loss", bg_value),
    ("correct", bg_value),
]
bg_loop._fields_ = [
    ("struct_bytes", c_size_t),
    ("carried_count", c_uint32),
    ("carried", bg_value * 16),
    ("results", bg_value * 16),
    ("iterations", c_uint64),
    ("condition", c_void_p),
]
bg_plan_variable._fields_ = [
    ("name", c_char_p),
    ("type", bg_type),
    ("role", c_int),
]
bg_plan_block._fields_ = [
    ("name", c_char_p),
    ("stage", c_uint32),
]
bg_plan_edge._fields_ = [
    ("from_device", c_uint32),
    ("to_device", c_uint32),
    ("payload_bytes", c_size_t),
    ("slot_bytes", c_size_t),
    ("depth", c_uint32),
    ("per_step", c_bool),
    ("is_stash", c_bool),
    ("is_ring", c_bool),
]
bg_plan_instruction._fields_ = [
    ("action", bg_action),
    ("transient_bytes", c_size_t),
    ("copies", c_bool),
    ("is_beside", c_bool),
]
bg_weight._fields_ = [
    ("name", c_char_p),
    ("type", bg_type),
    ("role", c_int),
    ("data", c_void_p),
]
bg_quantized._fields_ = [
    ("count", c_uint32),
    ("bytes", c_uint64),
    ("float_bytes", c_uint64),
    ("largest_error", c_double),
    ("largest_bound", c_double),
]
bg_stream._fields_ = [
    ("name", c_char_p),
    ("micro_batch_type", bg_type),
    ("count", c_uint64),
    ("replicas", c_uint32),
    ("size_bytes", c_size_t),
]
bg_trace_event._fields_ = [
    ("start_ns", c_uint64),
    ("end_ns", c_uint64),
    ("action", bg_action),
    ("replica", c_uint32),
    ("device", c_uint32),
    ("worker", c_uint32),
    ("step", c_uint64),
    ("is_beside", c_bool),
]
bg_batch_model = CFUNCTYPE(None, c_void_p, c_void_p, c_int64)
bg_checkpoint_save_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("max_checkpoints", c_uint32),
    ("blob", c_void_p),
    ("blob_bytes", c_size_t),
    ("info", c_char_p),
    ("keep_interval_s", c_uint64),
    ("one_file", c_bool),
    ("metric_rises", c_bool),
    ("metric_name", c_char_p),
    ("metric", c_double),
    ("keep_best", c_uint32),
]
bg_checkpoint_load_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("file", c_char_p),
    ("differences", c_int),
    ("drop", c_char_p),
    ("optimizer", c_char_p),
    ("drop_option", c_char_p),
    ("optimizer_option", c_char_p),
    ("log", bg_log_function),
    ("log_user", c_void_p),
]
bg_checkpoint._fields_ = [
    ("step", c_uint64),
    ("seed", c_uint64),
    ("path", c_char_p),
    ("info", c_char_p),
    ("blob", c_void_p),
    ("blob_bytes", c_size_t),
]
bg_infeed_source = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_bool), POINTER(bg_error))
bg_infeed_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("prefetch_depth", c_uint32),
    ("names", POINTER(c_char_p)),
    ("repeat", c_bool),
    ("first_epoch", c_uint64),
    ("first_element", c_uint64),
    ("omit_unread", c_bool),
]
bg_sample_source._fields_ = [
    ("struct_bytes", c_size_t),
    ("begin", CFUNCTYPE(c_int, c_void_p, c_uint64, POINTER(bg_error))),
    ("next", bg_infeed_source),
    ("end", CFUNCTYPE(None, c_void_p)),
    ("user", c_void_p),
]
bg_outfeed_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("structure", c_char_p),
    ("newest_only", c_bool),
    ("buffer_depth", c_uint32),
    ("bounded", c_bool),
    ("loss", c_bool),
    ("mask", POINTER(c_bool)),
    ("mask_count", c_uint32),
    ("accumulate", c_bool),
    ("accumulate_dtype", c_int),
]
bg_outfeed_leaf._fields_ = [
    ("path", c_char_p),
    ("output", c_char_p),
    ("type", bg_type),
]
bg_run._fields_ = [
    ("struct_bytes", c_size_t),
    ("inputs", POINTER(c_void_p)),
    ("constants", POINTER(c_bool)),
    ("infeed", c_void_p),
    ("outputs", POINTER(c_void_p)),
    ("carried_in", POINTER(c_void_p)),
    ("carried_out", POINTER(c_void_p)),
    ("iterations", c_uint64),
    ("stop", c_char_p),
    ("spare", CFUNCTYPE(c_bool, c_void_p)),
    ("spare_user", c_void_p),
    ("synthetic", c_bool),
    ("learning_rates", POINTER(c_double)),
]
bg_sampling._fields_ = [
    ("struct_bytes", c_size_t),
    ("repetition_penalty", c_double),
    ("presence_penalty", c_double),
    ("frequency_penalty", c_double),
    ("temperature", c_double),
    ("top_k", c_uint32),
    ("top_p", c_double),
    ("min_p", c_double),
    ("typical_p", c_double),
    ("seed", c_uint64),
]
bg_generation_prompt._fields_ = [
    ("tokens", POINTER(c_uint32)),
    ("count", c_size_t),
    ("seed", c_uint64),
]
bg_generation_token._fields_ = [
    ("prompt", c_uint32),
    ("place", c_uint64),
    ("token", c_uint32),
    ("log_share", c_double),
    ("text", c_char_p),
    ("text_bytes", c_size_t),
    ("is_last", c_bool),
]
bg_generation_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("max_tokens", c_uint64),
    ("sampling", bg_sampling),
    ("stop_tokens", POINTER(c_uint32)),
    ("stop_token_count", c_uint32),
    ("tokenizer", c_void_p),
    ("stop_strings", POINTER(c_char_p)),
    ("stop_string_count", c_uint32),
    ("on_token", CFUNCTYPE(c_bool, c_void_p, POINTER(bg_generation_token))),
    ("user", c_void_p),
    ("beams", c_uint32),
    ("length_penalty", c_double),
    ("returned_beams", c_uint32),
]
bg_generation._fields_ = [
    ("tokens", POINTER(c_uint32)),
    ("count", c_size_t),
    ("text", c_char_p),
    ("text_bytes", c_size_t),
    ("end", c_int),
    ("log_share", c_double),
    ("score", c_double),
]
bg_onnx_dim._fields_ = [
    ("size", c_int64),
    ("symbol", c_char_p),
]
bg_onnx_port._fields_ = [
    ("name", c_char_p),
    ("element", c_char_p),
    ("dtype", c_int),
    ("has_shape", c_bool),
    ("rank", c_uint32),
    ("dims", POINTER(bg_onnx_dim)),
    ("value", bg_value),
    ("type", bg_type),
]
bg_onnx_node._fields_ = [
    ("name", c_char_p),
    ("op", c_char_p),
    ("domain", c_char_p),
    ("block", c_char_p),
    ("ops", c_uint32),
    ("flops", c_double),
]
bg_onnx_weight._fields_ = [
    ("name", c_char_p),
    ("element", c_char_p),
    ("type", bg_type),
    ("use", c_int),
]
bg_onnx_problem._fields_ = [
    ("node", c_uint32),
    ("op", c_char_p),
    ("reason", c_char_p),
]
bg_onnx_contents._fields_ = [
    ("path", c_char_p),
    ("producer", c_char_p),
    ("graph_name", c_char_p),
    ("ir_version", c_int64),
    ("opset", c_int64),
    ("inputs", POINTER(bg_onnx_port)),
    ("outputs", POINTER(bg_onnx_port)),
    ("nodes", POINTER(bg_onnx_node)),
    ("weights", POINTER(bg_onnx_weight)),
    ("symbols", POINTER(c_char_p)),
    ("problems", POINTER(bg_onnx_problem)),
    ("input_count", c_uint32),
    ("output_count", c_uint32),
    ("node_count", c_uint32),
    ("weight_count", c_uint32),
    ("symbol_count", c_uint32),
    ("problem_count", c_uint32),
]
bg_onnx_size._fields_ = [
    ("symbol", c_char_p),
    ("size", c_int64),
]
bg_onnx_fixed._fields_ = [
    ("input", c_char_p),
    ("type", bg_type),
    ("data", c_void_p),
]
bg_onnx_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("mode", c_int),
    ("batch_size", c_int64),
    ("sizes", POINTER(bg_onnx_size)),
    ("size_count", c_uint32),
    ("values", POINTER(bg_onnx_fixed)),
    ("value_count", c_uint32),
    ("freeze", POINTER(c_char_p)),
    ("freeze_count", c_uint32),
    ("train", POINTER(c_char_p)),
    ("train_count", c_uint32),
    ("freeze_option", c_char_p),
    ("train_option", c_char_p),
    ("block_depth", c_uint32),
]
bg_onnx_save_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("opset", c_int64),
    ("outputs", POINTER(c_char_p)),
    ("output_count", c_uint32),
    ("batch", c_char_p),
    ("external_data", c_bool),
    ("graph_name", c_char_p),
]
bg_onnx_saved._fields_ = [
    ("node_count", c_uint32),
    ("weight_count", c_uint32),
    ("weight_bytes", c_uint64),
    ("has_batch", c_bool),
    ("fixed", c_char * 400),
]
bg_costs._fields_ = [
    ("stages", POINTER(bg_stage_cost)),
    ("stage_count", c_uint32),
    ("message_bytes_per_ns", c_double),
]
bg_profile_notes._fields_ = [
    ("struct_bytes", c_size_t),
    ("program", c_char_p),
    ("model", c_char_p),
    ("samples", c_char_p),
    ("settings", POINTER(c_char_p)),
    ("loader_wait_ns", c_uint64),
    ("loader_batches", c_uint64),
    ("loader_misses", c_uint64),
]
bg_weights_rename._fields_ = [
    ("in_file", c_char_p),
    ("in_model", c_char_p),
]
bg_weights_load_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("plan", c_void_p),
    ("strict", c_bool),
    ("exact_types", c_bool),
    ("prefix", c_char_p),
    ("renames", POINTER(bg_weights_rename)),
    ("rename_count", c_uint32),
    ("ignore", c_char_p),
    ("progress", bg_progress_function),
    ("progress_user", c_void_p),
]
bg_weights_result._fields_ = [
    ("name", c_char_p),
    ("in_file", c_char_p),
    ("outcome", c_int),
    ("wanted", bg_type),
    ("found", bg_type),
]
bg_weights_report._fields_ = [
    ("counts", c_uint32 * 5),
    ("result_count", c_uint32),
    ("results", POINTER(bg_weights_result)),
    ("memory", c_void_p),
]
bg_weights_save_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("prefix", c_char_p),
    ("renames", POINTER(bg_weights_rename)),
    ("rename_count", c_uint32),
    ("floats", c_int),
    ("folder_bytes", c_uint64),
    ("progress", bg_progress_function),
    ("progress_user", c_void_p),
]
bg_image_set._fields_ = [
    ("images", bg_array),
    ("labels", bg_array),
    ("class_count", c_uint32),
    ("source", c_char_p),
]
bg_mnist_download_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("folder", c_char_p),
    ("mirrors", POINTER(c_char_p)),
    ("mirror_count", c_size_t),
    ("progress", CFUNCTYPE(c_bool, c_void_p, c_char_p, c_uint64, c_uint64)),
    ("user", c_void_p),
    ("md5", POINTER(c_char_p)),
]
bg_digits_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("seed", c_uint64),
    ("first_index", c_uint64),
    ("count", c_uint64),
]
bg_dataset_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("sample_count", c_uint64),
    ("tensor_count", c_uint32),
    ("sample_types", POINTER(bg_type)),
    ("get", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, POINTER(c_void_p), POINTER(bg_error))),
    ("user", c_void_p),
]
bg_dataset_map_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("tensor_count", c_uint32),
    ("sample_types", POINTER(bg_type)),
    ("map", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, POINTER(c_void_p), POINTER(c_void_p), POINTER(bg_error))),
    ("user", c_void_p),
]
bg_normalize_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("tensor_index", c_uint32),
    ("channel_count", c_uint32),
    ("means", POINTER(c_float)),
    ("deviations", POINTER(c_float)),
]
bg_convert_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("tensor_index", c_uint32),
    ("type", bg_type),
    ("channel_count", c_uint32),
    ("means", POINTER(c_float)),
    ("deviations", POINTER(c_float)),
]
bg_stream_shard._fields_ = [
    ("epoch", c_uint64),
    ("index", c_uint32),
    ("count", c_uint32),
    ("seed", c_uint64),
]
bg_sample_stream._fields_ = [
    ("struct_bytes", c_size_t),
    ("tensor_count", c_uint32),
    ("sample_types", POINTER(bg_type)),
    ("user", c_void_p),
    ("open", CFUNCTYPE(c_int, c_void_p, POINTER(bg_stream_shard), POINTER(c_void_p), POINTER(bg_error))),
    ("next", CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_bool), POINTER(bg_error))),
    ("close", CFUNCTYPE(None, c_void_p)),
]
bg_loader_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("mode", c_int),
    ("batch_size", c_uint64),
    ("shuffle", c_bool),
    ("drop_last", c_bool),
    ("pad_multiple", c_uint64),
    ("pad_samples", POINTER(c_void_p)),
    ("shuffle_buffer", c_uint64),
    ("seed", c_uint64),
    ("worker_count", c_uint32),
    ("prefetch_depth", c_uint32),
    ("process_index", c_uint32),
    ("process_count", c_uint32),
    ("sampler", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, POINTER(c_uint32), c_uint64, POINTER(c_uint64), POINTER(bg_error))),
    ("sampler_user", c_void_p),
    ("sampler_list_count", c_uint64),
    ("sampler_combine", c_uint64),
    ("early_preload", c_bool),
    ("load_indefinitely", c_bool),
    ("shard_count", c_uint32),
    ("rebatched_size", c_uint64),
    ("start_thread", CFUNCTYPE(c_bool, c_void_p, CFUNCTYPE(None, c_void_p), c_void_p)),
    ("start_thread_user", c_void_p),
    ("allocator", bg_allocator),
]
bg_batch._fields_ = [
    ("tensors", POINTER(c_void_p)),
    ("sample_count", c_uint64),
    ("valid_count", c_uint64),
    ("position", c_uint64),
    ("epoch", c_uint64),
]
bg_loader_statistics._fields_ = [
    ("batch_count", c_uint64),
    ("miss_count", c_uint64),
    ("wait_ns", c_uint64),
]
bg_benchmark_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("epoch_count", c_uint64),
    ("elements_per_epoch", c_uint64),
    ("do_memcpy", c_bool),
]
bg_npz._fields_ = [
    ("count", c_uint32),
    ("names", POINTER(c_char_p)),
    ("arrays", POINTER(bg_array)),
]
bg_tokens_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("sequence_length", c_uint32),
    ("vocabulary_size", c_uint32),
    ("token_bytes", c_uint32),
    ("stride", c_uint32),
    ("feature", c_char_p),
]
bg_csv_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("delimiter", c_char),
    ("has_no_header", c_bool),
    ("skip_incomplete", c_bool),
    ("columns", POINTER(c_char_p)),
    ("column_count", c_uint32),
    ("label", c_char_p),
    ("out_skipped", POINTER(c_uint64)),
]
bg_ipu_strategy._fields_ = [
    ("struct_bytes", c_size_t),
    ("devices", c_uint32),
    ("device_iterations", c_uint32),
    ("training_options", POINTER(bg_options)),
    ("inference_options", POINTER(bg_options)),
    ("report_folder", c_char_p),
    ("ipu_limits", c_bool),
]
bg_trainer_call._fields_ = [
    ("plan", c_void_p),
    ("session", c_void_p),
    ("outputs", POINTER(c_void_p)),
    ("micro_batch", c_uint32),
    ("device_iterations", c_uint32),
    ("gradient_accumulation", c_uint32),
    ("replicas", c_uint32),
    ("input_group_size", c_uint32),
    ("input_grouping", c_int),
    ("first_update", c_uint64),
    ("update_count", c_uint64),
    ("sample_count", c_uint64),
    ("valid_count", c_uint64),
    ("run_ns", c_uint64),
    ("is_whole", c_bool),
    ("canonical", c_bool),
]
bg_trainer_event._fields_ = [
    ("kind", c_int),
    ("trainer", c_void_p),
    ("task", c_int),
    ("epoch", c_uint64),
    ("batch", c_uint64),
    ("batch_count", c_uint64),
    ("valid_count", c_uint64),
    ("sample", c_uint64),
    ("call", POINTER(bg_trainer_call)),
    ("stop", c_bool),
]
bg_trainer_callback._fields_ = [
    ("function", CFUNCTYPE(c_int, c_void_p, POINTER(bg_trainer_event), POINTER(bg_error))),
    ("user", c_void_p),
]
bg_trainer_argument._fields_ = [
    ("input", c_char_p),
    ("kind", c_int),
    ("value", c_double),
]
bg_trainer_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("strategy", bg_ipu_strategy),
    ("model", c_void_p),
    ("model_user", c_void_p),
    ("optimizer", bg_optimizer),
    ("micro_batch", c_uint32 * 4),
    ("accumulate_grad_batches", c_uint32),
    ("gradient_clip", c_double),
    ("seed", c_uint64),
    ("initialize_missing", c_bool),
    ("max_epochs", c_uint64),
    ("max_steps", c_uint64),
    ("batch_limits", c_uint64 * 4),
    ("batch_shares", c_double * 4),
    ("validate_epochs", c_uint64),
    ("validate_batches", c_uint64),
    ("validate_share", c_double),
    ("checkpoint_epochs", c_uint64),
    ("checkpoint_batches", c_uint64),
    ("checkpoint_steps", c_uint64),
    ("checkpoint_end", c_bool),
    ("learning_rate", CFUNCTYPE(c_double, c_void_p, c_uint64)),
    ("learning_rate_user", c_void_p),
    ("learning_rate_updates", c_bool),
    ("cast_batches", c_bool),
    ("arguments", POINTER(bg_trainer_argument)),
    ("argument_count", c_uint32),
    ("callbacks", POINTER(bg_trainer_callback)),
    ("callback_count", c_uint32),
    ("interrupt", POINTER(c_int)),
    ("scores", POINTER(bg_score)),
    ("score_count", c_uint32),
    ("log", bg_log_function),
    ("log_user", c_void_p),
    ("add_model", CFUNCTYPE(None, c_void_p, c_void_p, c_int, c_int64, POINTER(bg_value))),
]
bg_trainer_data._fields_ = [
    ("struct_bytes", c_size_t),
    ("loader", c_void_p),
    ("dataset", c_void_p),
    ("loading", POINTER(bg_loader_options)),
    ("drop_rest", c_bool),
    ("infeed", c_void_p),
    ("names", POINTER(c_char_p)),
]
bg_trainer_metric._fields_ = [
    ("name", c_char_p),
    ("mean", c_double),
    ("last", c_double),
    ("sum", c_double),
    ("samples", c_uint64),
    ("is_count", c_bool),
]
bg_watch._fields_ = [
    ("struct_bytes", c_size_t),
    ("metric", c_char_p),
    ("rises", c_bool),
    ("least_change", c_double),
    ("patience", c_uint64),
    ("best_weights", c_void_p),
    ("best_directory", c_char_p),
    ("plateau", POINTER(bg_rate_schedule)),
    ("best", c_double),
    ("best_step", c_uint64),
    ("worse_count", c_uint64),
    ("has_stopped", c_bool),
]
bg_average._fields_ = [
    ("struct_bytes", c_size_t),
    ("decay", c_double),
    ("weights", c_void_p),
]

STRUCTS = {
    "bg_error": bg_error,
    "bg_allocator": bg_allocator,
    "bg_type": bg_type,
    "bg_array": bg_array,
    "bg_mesh": bg_mesh,
    "bg_replica_group": bg_replica_group,
    "bg_shard_dim": bg_shard_dim,
    "bg_shard": bg_shard,
    "bg_rate_schedule": bg_rate_schedule,
    "bg_safetensors_entry": bg_safetensors_entry,
    "bg_safetensors_metadata": bg_safetensors_metadata,
    "bg_action": bg_action,
    "bg_schedule_edge": bg_schedule_edge,
    "bg_schedule_buffer": bg_schedule_buffer,
    "bg_stage_cost": bg_stage_cost,
    "bg_schedule_problem": bg_schedule_problem,
    "bg_schedule_generator": bg_schedule_generator,
    "bg_schedule_event": bg_schedule_event,
    "bg_schedule_timing": bg_schedule_timing,
    "bg_schedule_svg_options": bg_schedule_svg_options,
    "bg_score": bg_score,
    "bg_token_list": bg_token_list,
    "bg_transport": bg_transport,
    "bg_kernel_env": bg_kernel_env,
    "bg_kernel_call": bg_kernel_call,
    "bg_kernel": bg_kernel,
    "bg_cost": bg_cost,
    "bg_value": bg_value,
    "bg_op_signature": bg_op_signature,
    "bg_op_gradient": bg_op_gradient,
    "bg_op_type": bg_op_type,
    "bg_initializer": bg_initializer,
    "bg_section": bg_section,
    "bg_gpt_options": bg_gpt_options,
    "bg_gpt": bg_gpt,
    "bg_conv2d_options": bg_conv2d_options,
    "bg_conv_options": bg_conv_options,
    "bg_pool2d_options": bg_pool2d_options,
    "bg_pool_options": bg_pool_options,
    "bg_interpolate_options": bg_interpolate_options,
    "bg_attention_options": bg_attention_options,
    "bg_dot_product_attention_options": bg_dot_product_attention_options,
    "bg_rotary_options": bg_rotary_options,
    "bg_scan_step": bg_scan_step,
    "bg_scan_options": bg_scan_options,
    "bg_gradient_check_options": bg_gradient_check_options,
    "bg_device_model": bg_device_model,
    "bg_block_cost": bg_block_cost,
    "bg_output_request": bg_output_request,
    "bg_tensor_location": bg_tensor_location,
    "bg_location_rule": bg_location_rule,
    "bg_auto_loss_scaling": bg_auto_loss_scaling,
    "bg_execution_options": bg_execution_options,
    "bg_memory_options": bg_memory_options,
    "bg_replicas_options": bg_replicas_options,
    "bg_numerics_options": bg_numerics_options,
    "bg_files_options": bg_files_options,
    "bg_reporting_options": bg_reporting_options,
    "bg_options": bg_options,
    "bg_update_rule": bg_update_rule,
    "bg_optimizer": bg_optimizer,
    "bg_config_value": bg_config_value,
    "bg_ipu_config_load_options": bg_ipu_config_load_options,
    "bg_ipu_model": bg_ipu_model,
    "bg_ipu_options": bg_ipu_options,
    "bg_recurrent_options": bg_recurrent_options,
    "bg_split_placement": bg_split_placement,
    "bg_parallel_linear_options": bg_parallel_linear_options,
    "bg_plan_summary": bg_plan_summary,
    "bg_convnet_options": bg_convnet_options,
    "bg_convnet": bg_convnet,
    "bg_loop": bg_loop,
    "bg_plan_variable": bg_plan_variable,
    "bg_plan_block": bg_plan_block,
    "bg_plan_edge": bg_plan_edge,
    "bg_plan_instruction": bg_plan_instruction,
    "bg_weight": bg_weight,
    "bg_quantized": bg_quantized,
    "bg_stream": bg_stream,
    "bg_trace_event": bg_trace_event,
    "bg_checkpoint_save_options": bg_checkpoint_save_options,
    "bg_checkpoint_load_options": bg_checkpoint_load_options,
    "bg_checkpoint": bg_checkpoint,
    "bg_infeed_options": bg_infeed_options,
    "bg_sample_source": bg_sample_source,
    "bg_outfeed_options": bg_outfeed_options,
    "bg_outfeed_leaf": bg_outfeed_leaf,
    "bg_run": bg_run,
    "bg_sampling": bg_sampling,
    "bg_generation_prompt": bg_generation_prompt,
    "bg_generation_token": bg_generation_token,
    "bg_generation_options": bg_generation_options,
    "bg_generation": bg_generation,
    "bg_onnx_dim": bg_onnx_dim,
    "bg_onnx_port": bg_onnx_port,
    "bg_onnx_node": bg_onnx_node,
    "bg_onnx_weight": bg_onnx_weight,
    "bg_onnx_problem": bg_onnx_problem,
    "bg_onnx_contents": bg_onnx_contents,
    "bg_onnx_size": bg_onnx_size,
    "bg_onnx_fixed": bg_onnx_fixed,
    "bg_onnx_options": bg_onnx_options,
    "bg_onnx_save_options": bg_onnx_save_options,
    "bg_onnx_saved": bg_onnx_saved,
    "bg_costs": bg_costs,
    "bg_profile_notes": bg_profile_notes,
    "bg_weights_rename": bg_weights_rename,
    "bg_weights_load_options": bg_weights_load_options,
    "bg_weights_result": bg_weights_result,
    "bg_weights_report": bg_weights_report,
    "bg_weights_save_options": bg_weights_save_options,
    "bg_image_set": bg_image_set,
    "bg_mnist_download_options": bg_mnist_download_options,
    "bg_digits_options": bg_digits_options,
    "bg_dataset_options": bg_dataset_options,
    "bg_dataset_map_options": bg_dataset_map_options,
    "bg_normalize_options": bg_normalize_options,
    "bg_convert_options": bg_convert_options,
    "bg_stream_shard": bg_stream_shard,
    "bg_sample_stream": bg_sample_stream,
    "bg_loader_options": bg_loader_options,
    "bg_batch": bg_batch,
    "bg_loader_statistics": bg_loader_statistics,
    "bg_benchmark_options": bg_benchmark_options,
    "bg_npz": bg_npz,
    "bg_tokens_options": bg_tokens_options,
    "bg_csv_options": bg_csv_options,
    "bg_ipu_strategy": bg_ipu_strategy,
    "bg_trainer_call": bg_trainer_call,
    "bg_trainer_event": bg_trainer_event,
    "bg_trainer_callback": bg_trainer_callback,
    "bg_trainer_argument": bg_trainer_argument,
    "bg_trainer_options": bg_trainer_options,
    "bg_trainer_data": bg_trainer_data,
    "bg_trainer_metric": bg_trainer_metric,
    "bg_watch": bg_watch,
    "bg_average": bg_average,
}

# Functions: result, parameters as (name, type in C), whether others may follow. Those that pass structs of more
# than 16 bytes by value are left out; brigade/bindings.h has their forms with pointers.
FUNCTIONS = {
    "bg_action_kind_name": (c_char_p, [("kind", c_int, "bg_action_kind kind")], False),
    "bg_adaptive_avg_pool": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("sizes", POINTER(c_int64), "const int64_t *sizes")], False),
    "bg_adaptive_max_pool": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("sizes", POINTER(c_int64), "const int64_t *sizes")], False),
    "bg_add": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("a", bg_value, "bg_value a"), ("b", bg_value, "bg_value b")], False),
    "bg_all_gather": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis"), ("axes", c_uint32, "uint32_t axes")], False),
    "bg_all_reduce": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("function", c_int, "bg_reduction function"), ("axes", c_uint32, "uint32_t axes")], False),
    "bg_argmax": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x")], False),
    "bg_array_clear": (None, [("array", POINTER(bg_array), "bg_array *array")], False),
    "bg_array_init": (c_int, [("array", POINTER(bg_array), "bg_array *array"), ("type", POINTER(bg_type), "const bg_type *type"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_attention": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("qkv", bg_value, "bg_value qkv"), ("options", POINTER(bg_attention_options), "const bg_attention_options *options")], False),
    "bg_attention_cached": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("qkv", bg_value, "bg_value qkv"), ("cache", bg_value, "bg_value cache"), ("positions", bg_value, "bg_value positions"), ("options", POINTER(bg_attention_options), "const bg_attention_options *options")], False),
    "bg_attention_options_init": (None, [("options", POINTER(bg_attention_options), "bg_attention_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("heads", c_int64, "int64_t heads")], False),
    "bg_average_event": (c_int, [("average", c_void_p, "void *average"), ("event", POINTER(bg_trainer_event), "bg_trainer_event *event"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_average_init": (None, [("average", POINTER(bg_average), "bg_average *average"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("decay", c_double, "double decay"), ("weights", c_void_p, "bg_weights *weights")], False),
    "bg_avg_pool": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("options", POINTER(bg_pool_options), "const bg_pool_options *options")], False),
    "bg_avg_pool2d": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("options", POINTER(bg_pool2d_options), "const bg_pool2d_options *options")], False),
    "bg_batch_norm": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("gamma", bg_value, "bg_value gamma"), ("beta", bg_value, "bg_value beta"), ("running_mean", bg_value, "bg_value running_mean"), ("running_variance", bg_value, "bg_value running_variance"), ("momentum", c_double, "double momentum"), ("epsilon", c_double, "double epsilon")], False),
    "bg_batch_norm_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("momentum", c_double, "double momentum"), ("epsilon", c_double, "double epsilon")], False),
    "bg_batches_create": (c_int, [("model", bg_batch_model, "bg_batch_model model"), ("user", c_void_p, "void *user"), ("most_samples", c_int64, "int64_t most_samples"), ("options", POINTER(bg_options), "const bg_options *options"), ("weights", c_void_p, "bg_weights *weights"), ("out", POINTER(c_void_p), "bg_batches **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_batches_destroy": (None, [("batches", c_void_p, "bg_batches *batches")], False),
    "bg_batches_prepare": (c_int, [("batches", c_void_p, "bg_batches *batches"), ("samples", c_int64, "int64_t samples"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_batches_run": (c_int, [("batches", c_void_p, "bg_batches *batches"), ("samples", c_int64, "int64_t samples"), ("inputs", POINTER(c_void_p), "const void *const *inputs"), ("outputs", POINTER(c_void_p), "void *const *outputs"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_batches_session": (c_void_p, [("batches", c_void_p, "const bg_batches *batches"), ("samples", c_int64, "int64_t samples")], False),
    "bg_binary_counts": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("predictions", bg_value, "bg_value predictions"), ("targets", bg_value, "bg_value targets"), ("threshold", c_double, "double threshold")], False),
    "bg_block_begin": (None, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("device", c_uint32, "uint32_t device")], False),
    "bg_block_end": (None, [("graph", c_void_p, "bg_graph *graph")], False),
    "bg_block_start": (None, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("device", c_uint32, "uint32_t device")], False),
    "bg_broadcast": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("rank", c_uint32, "uint32_t rank"), ("dims", POINTER(c_int64), "const int64_t *dims")], False),
    "bg_cast": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("dtype", c_int, "bg_dtype dtype")], False),
    "bg_checkpoint_begin": (c_int, [("session", c_void_p, "bg_session *session"), ("directory", c_char_p, "const char *directory"), ("options", POINTER(bg_checkpoint_save_options), "const bg_checkpoint_save_options *options"), ("out", POINTER(c_void_p), "bg_checkpoint_writer **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_checkpoint_clear": (None, [("checkpoint", POINTER(bg_checkpoint), "bg_checkpoint *checkpoint")], False),
    "bg_checkpoint_finish": (c_int, [("writer", c_void_p, "bg_checkpoint_writer *writer"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_checkpoint_is_written": (c_int, [("writer", c_void_p, "bg_checkpoint_writer *writer"), ("out", POINTER(c_bool), "bool *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_checkpoint_load": (c_int, [("session", c_void_p, "bg_session *session"), ("directory", c_char_p, "const char *directory"), ("options", POINTER(bg_checkpoint_load_options), "const bg_checkpoint_load_options *options"), ("out", POINTER(bg_checkpoint), "bg_checkpoint *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_checkpoint_load_options_init": (None, [("options", POINTER(bg_checkpoint_load_options), "bg_checkpoint_load_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_checkpoint_load_weights": (c_int, [("weights", c_void_p, "bg_weights *weights"), ("directory", c_char_p, "const char *directory"), ("options", POINTER(bg_checkpoint_load_options), "const bg_checkpoint_load_options *options"), ("out", POINTER(bg_checkpoint), "bg_checkpoint *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_checkpoint_release_memory": (c_int, [("session", c_void_p, "bg_session *session"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_checkpoint_reserve_memory": (c_int, [("session", c_void_p, "bg_session *session"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_checkpoint_save": (c_int, [("session", c_void_p, "bg_session *session"), ("directory", c_char_p, "const char *directory"), ("options", POINTER(bg_checkpoint_save_options), "const bg_checkpoint_save_options *options"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_checkpoint_save_options_init": (None, [("options", POINTER(bg_checkpoint_save_options), "bg_checkpoint_save_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_clamp": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("x", bg_value, "bg_value x"), ("lowest", c_double, "double lowest"), ("highest", c_double, "double highest")], False),
    "bg_class_counts": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("logits", bg_value, "bg_value logits"), ("labels", bg_value, "bg_value labels")], False),
    "bg_compare": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("comparison", c_int, "bg_comparison comparison"), ("a", bg_value, "bg_value a"), ("b", bg_value, "bg_value b")], False),
    "bg_concat": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("values", POINTER(bg_value), "const bg_value *values"), ("count", c_uint32, "uint32_t count"), ("axis", c_int32, "int32_t axis")], False),
    "bg_conv": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("weight", bg_value, "bg_value weight"), ("bias", bg_value, "bg_value bias"), ("options", POINTER(bg_conv_options), "const bg_conv_options *options")], False),
    "bg_conv2d": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("weight", bg_value, "bg_value weight"), ("bias", bg_value, "bg_value bias"), ("options", POINTER(bg_conv2d_options), "const bg_conv2d_options *options")], False),
    "bg_conv2d_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("out_channels", c_int64, "int64_t out_channels"), ("kernel_height", c_int64, "int64_t kernel_height"), ("kernel_width", c_int64, "int64_t kernel_width"), ("bias", c_bool, "bool bias"), ("options", POINTER(bg_conv2d_options), "const bg_conv2d_options *options")], False),
    "bg_conv2d_options_init": (None, [("options", POINTER(bg_conv2d_options), "bg_conv2d_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_conv_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("out_channels", c_int64, "int64_t out_channels"), ("kernel", POINTER(c_int64), "const int64_t *kernel"), ("bias", c_bool, "bool bias"), ("options", POINTER(bg_conv_options), "const bg_conv_options *options")], False),
    "bg_conv_options_init": (None, [("options", POINTER(bg_conv_options), "bg_conv_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_conv_transpose": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("weight", bg_value, "bg_value weight"), ("bias", bg_value, "bg_value bias"), ("options", POINTER(bg_conv_options), "const bg_conv_options *options")], False),
    "bg_conv_transpose_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("out_channels", c_int64, "int64_t out_channels"), ("kernel", POINTER(c_int64), "const int64_t *kernel"), ("bias", c_bool, "bool bias"), ("options", POINTER(bg_conv_options), "const bg_conv_options *options")], False),
    "bg_convnet_add": (None, [("graph", c_void_p, "bg_graph *graph"), ("options", POINTER(bg_convnet_options), "const bg_convnet_options *options"), ("out", POINTER(bg_convnet), "bg_convnet *out")], False),
    "bg_convnet_options_init": (None, [("options", POINTER(bg_convnet_options), "bg_convnet_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_correct_count": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("logits", bg_value, "bg_value logits"), ("labels", bg_value, "bg_value labels")], False),
    "bg_cosine_embedding_loss": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("a", bg_value, "bg_value a"), ("b", bg_value, "bg_value b"), ("targets", bg_value, "bg_value targets"), ("margin", c_double, "double margin"), ("reduction", c_int, "bg_loss_reduction reduction")], False),
    "bg_cosine_similarity": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("a", bg_value, "bg_value a"), ("b", bg_value, "bg_value b"), ("axis", c_int32, "int32_t axis"), ("epsilon", c_double, "double epsilon")], False),
    "bg_costs_clear": (None, [("costs", POINTER(bg_costs), "bg_costs *costs")], False),
    "bg_costs_load": (c_int, [("path", c_char_p, "const char *path"), ("out", POINTER(bg_costs), "bg_costs *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_costs_save": (c_int, [("costs", POINTER(bg_costs), "const bg_costs *costs"), ("path", c_char_p, "const char *path"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_cross_entropy": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("logits", bg_value, "bg_value logits"), ("labels", bg_value, "bg_value labels"), ("reduction", c_int, "bg_loss_reduction reduction"), ("ignore_index", c_int64, "int64_t ignore_index")], False),
    "bg_csv_read": (c_int, [("path", c_char_p, "const char *path"), ("options", POINTER(bg_csv_options), "const bg_csv_options *options"), ("out_features", POINTER(bg_array), "bg_array *out_features"), ("out_labels", POINTER(bg_array), "bg_array *out_labels"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ctc_loss": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("log_probabilities", bg_value, "bg_value log_probabilities"), ("targets", bg_value, "bg_value targets"), ("lengths", bg_value, "bg_value lengths"), ("target_lengths", bg_value, "bg_value target_lengths"), ("blank", c_int32, "int32_t blank"), ("zero_infinity", c_bool, "bool zero_infinity"), ("reduction", c_int, "bg_loss_reduction reduction")], False),
    "bg_cumulative_sum": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis"), ("exclusive", c_bool, "bool exclusive"), ("reverse", c_bool, "bool reverse")], False),
    "bg_dataset_benchmark": (c_int, [("dataset", c_void_p, "const bg_dataset *dataset"), ("options", POINTER(bg_benchmark_options), "const bg_benchmark_options *options"), ("out_json", POINTER(c_char_p), "char **out_json"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_cache": (c_int, [("source", c_void_p, "bg_dataset *source"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_concatenate": (c_int, [("sources", POINTER(c_void_p), "bg_dataset *const *sources"), ("source_count", c_uint32, "uint32_t source_count"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_convert": (c_int, [("source", c_void_p, "bg_dataset *source"), ("options", POINTER(bg_convert_options), "const bg_convert_options *options"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_create": (c_int, [("options", POINTER(bg_dataset_options), "const bg_dataset_options *options"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_create_arrays": (c_int, [("arrays", POINTER(bg_array), "const bg_array *arrays"), ("array_count", c_uint32, "uint32_t array_count"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_destroy": (None, [("dataset", c_void_p, "bg_dataset *dataset")], False),
    "bg_dataset_map": (c_int, [("source", c_void_p, "bg_dataset *source"), ("options", POINTER(bg_dataset_map_options), "const bg_dataset_map_options *options"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_normalize": (c_int, [("source", c_void_p, "bg_dataset *source"), ("options", POINTER(bg_normalize_options), "const bg_normalize_options *options"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_open": (c_int, [("source", c_char_p, "const char *source"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_open_csv": (c_int, [("path", c_char_p, "const char *path"), ("options", POINTER(bg_csv_options), "const bg_csv_options *options"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_open_images": (c_int, [("folder", c_char_p, "const char *folder"), ("channels", c_uint32, "uint32_t channels"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_open_npy": (c_int, [("paths", POINTER(c_char_p), "const char *const *paths"), ("path_count", c_uint32, "uint32_t path_count"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_open_npz": (c_int, [("path", c_char_p, "const char *path"), ("names", POINTER(c_char_p), "const char *const *names"), ("name_count", c_uint32, "uint32_t name_count"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_open_tfrecord": (c_int, [("path", c_char_p, "const char *path"), ("options", POINTER(bg_tokens_options), "const bg_tokens_options *options"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_open_tokens": (c_int, [("path", c_char_p, "const char *path"), ("options", POINTER(bg_tokens_options), "const bg_tokens_options *options"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_read_stream": (None, [("dataset", c_void_p, "const bg_dataset *dataset"), ("out", POINTER(bg_sample_stream), "bg_sample_stream *out")], False),
    "bg_dataset_repeat": (c_int, [("source", c_void_p, "bg_dataset *source"), ("count", c_uint32, "uint32_t count"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_sample_count": (c_uint64, [("dataset", c_void_p, "const bg_dataset *dataset")], False),
    "bg_dataset_sample_type": (POINTER(bg_type), [("dataset", c_void_p, "const bg_dataset *dataset"), ("tensor_index", c_uint32, "uint32_t tensor_index")], False),
    "bg_dataset_shard": (c_int, [("source", c_void_p, "bg_dataset *source"), ("shard_index", c_uint32, "uint32_t shard_index"), ("shard_count", c_uint32, "uint32_t shard_count"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_shuffle": (c_int, [("source", c_void_p, "bg_dataset *source"), ("buffer", c_uint64, "uint64_t buffer"), ("seed", c_uint64, "uint64_t seed"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_skip": (c_int, [("source", c_void_p, "bg_dataset *source"), ("count", c_uint64, "uint64_t count"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_take": (c_int, [("source", c_void_p, "bg_dataset *source"), ("count", c_uint64, "uint64_t count"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_dataset_tensor_count": (c_uint32, [("dataset", c_void_p, "const bg_dataset *dataset")], False),
    "bg_dataset_zip": (c_int, [("sources", POINTER(c_void_p), "bg_dataset *const *sources"), ("source_count", c_uint32, "uint32_t source_count"), ("out", POINTER(c_void_p), "bg_dataset **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_digits_create": (c_int, [("options", POINTER(bg_digits_options), "const bg_digits_options *options"), ("out", POINTER(bg_image_set), "bg_image_set *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_digits_generate": (None, [("options", POINTER(bg_digits_options), "const bg_digits_options *options"), ("images", POINTER(c_uint8), "uint8_t *images"), ("labels", POINTER(c_uint8), "uint8_t *labels")], False),
    "bg_divide": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("a", bg_value, "bg_value a"), ("b", bg_value, "bg_value b")], False),
    "bg_dot_product_attention": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("query", bg_value, "bg_value query"), ("key", bg_value, "bg_value key"), ("value", bg_value, "bg_value value"), ("bias", bg_value, "bg_value bias"), ("options", POINTER(bg_dot_product_attention_options), "const bg_dot_product_attention_options *options")], False),
    "bg_dot_product_attention_cached": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("query", bg_value, "bg_value query"), ("key", bg_value, "bg_value key"), ("value", bg_value, "bg_value value"), ("key_cache", bg_value, "bg_value key_cache"), ("value_cache", bg_value, "bg_value value_cache"), ("positions", bg_value, "bg_value positions"), ("options", POINTER(bg_dot_product_attention_options), "const bg_dot_product_attention_options *options")], False),
    "bg_dot_product_attention_options_init": (None, [("options", POINTER(bg_dot_product_attention_options), "bg_dot_product_attention_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("heads", c_int64, "int64_t heads")], False),
    "bg_dropout": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("probability", c_double, "double probability")], False),
    "bg_dtype_find": (c_int, [("name", c_char_p, "const char *name")], False),
    "bg_dtype_is_float": (c_bool, [("dtype", c_int, "bg_dtype dtype")], False),
    "bg_dtype_name": (c_char_p, [("dtype", c_int, "bg_dtype dtype")], False),
    "bg_dtype_size_bytes": (c_size_t, [("dtype", c_int, "bg_dtype dtype")], False),
    "bg_einsum": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("equation", c_char_p, "const char *equation"), ("operands", POINTER(bg_value), "const bg_value *operands"), ("count", c_uint32, "uint32_t count")], False),
    "bg_elementwise_binary": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("function", c_int, "bg_binary function"), ("a", bg_value, "bg_value a"), ("b", bg_value, "bg_value b")], False),
    "bg_elementwise_function": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("function", c_int, "bg_unary function"), ("a", c_double, "double a"), ("b", c_double, "double b"), ("x", bg_value, "bg_value x")], False),
    "bg_elementwise_unary": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("function", c_int, "bg_unary function"), ("x", bg_value, "bg_value x")], False),
    "bg_embedding": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("table", bg_value, "bg_value table"), ("ids", bg_value, "bg_value ids"), ("padding_index", c_int64, "int64_t padding_index")], False),
    "bg_embedding_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("ids", bg_value, "bg_value ids"), ("row_count", c_int64, "int64_t row_count"), ("width", c_int64, "int64_t width"), ("padding_index", c_int64, "int64_t padding_index"), ("dtype", c_int, "bg_dtype dtype")], False),
    "bg_error_clear": (None, [("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_error_context": (c_int, [("error", POINTER(bg_error), "bg_error *error"), ("status", c_int, "bg_status status"), ("format", c_char_p, "const char *format")], True),
    "bg_error_set": (c_int, [("error", POINTER(bg_error), "bg_error *error"), ("status", c_int, "bg_status status"), ("format", c_char_p, "const char *format")], True),
    "bg_flatten": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x")], False),
    "bg_flip": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis")], False),
    "bg_gather": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis"), ("ids", bg_value, "bg_value ids")], False),
    "bg_gather_elements": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis"), ("ids", bg_value, "bg_value ids")], False),
    "bg_gelu": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("x", bg_value, "bg_value x")], False),
    "bg_gelu_tanh": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("x", bg_value, "bg_value x")], False),
    "bg_generation_clear": (None, [("results", POINTER(bg_generation), "bg_generation *results"), ("count", c_size_t, "size_t count")], False),
    "bg_generation_options_init": (None, [("options", POINTER(bg_generation_options), "bg_generation_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_generator_create": (c_int, [("model", POINTER(bg_gpt_options), "const bg_gpt_options *model"), ("options", POINTER(bg_options), "const bg_options *options"), ("weights", c_void_p, "bg_weights *weights"), ("out", POINTER(c_void_p), "bg_generator **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_generator_create_batch": (c_int, [("model", POINTER(bg_gpt_options), "const bg_gpt_options *model"), ("options", POINTER(bg_options), "const bg_options *options"), ("weights", c_void_p, "bg_weights *weights"), ("sequences", c_uint32, "uint32_t sequences"), ("out", POINTER(c_void_p), "bg_generator **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_generator_destroy": (None, [("generator", c_void_p, "bg_generator *generator")], False),
    "bg_generator_feed": (c_int, [("generator", c_void_p, "bg_generator *generator"), ("tokens", POINTER(c_uint32), "const uint32_t *tokens"), ("count", c_size_t, "size_t count"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_generator_length": (c_int64, [("generator", c_void_p, "const bg_generator *generator")], False),
    "bg_generator_logits": (POINTER(c_float), [("generator", c_void_p, "const bg_generator *generator")], False),
    "bg_generator_reset": (None, [("generator", c_void_p, "bg_generator *generator")], False),
    "bg_generator_run": (c_int, [("generator", c_void_p, "bg_generator *generator"), ("prompts", POINTER(bg_generation_prompt), "const bg_generation_prompt *prompts"), ("prompt_count", c_uint32, "uint32_t prompt_count"), ("options", POINTER(bg_generation_options), "const bg_generation_options *options"), ("out_results", POINTER(bg_generation), "bg_generation *out_results"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_generator_sample": (c_int, [("generator", c_void_p, "bg_generator *generator"), ("sampling", POINTER(bg_sampling), "const bg_sampling *sampling"), ("out_token", POINTER(c_uint32), "uint32_t *out_token"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_generator_session": (c_void_p, [("generator", c_void_p, "const bg_generator *generator"), ("of_prompt", c_bool, "bool of_prompt")], False),
    "bg_gpt_add": (None, [("graph", c_void_p, "bg_graph *graph"), ("options", POINTER(bg_gpt_options), "const bg_gpt_options *options"), ("out", POINTER(bg_gpt), "bg_gpt *out")], False),
    "bg_gpt_add_steps": (None, [("graph", c_void_p, "bg_graph *graph"), ("options", POINTER(bg_gpt_options), "const bg_gpt_options *options"), ("cache_length", c_int64, "int64_t cache_length"), ("sequences", c_uint32, "uint32_t sequences"), ("out", POINTER(bg_gpt), "bg_gpt *out")], False),
    "bg_gpt_directory_load": (c_int, [("directory", c_char_p, "const char *directory"), ("options", POINTER(bg_gpt_options), "const bg_gpt_options *options"), ("weights", c_void_p, "bg_weights *weights"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_gpt_directory_read_options": (c_int, [("directory", c_char_p, "const char *directory"), ("options", POINTER(bg_gpt_options), "bg_gpt_options *options"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_gpt_directory_save": (c_int, [("directory", c_char_p, "const char *directory"), ("options", POINTER(bg_gpt_options), "const bg_gpt_options *options"), ("weights", c_void_p, "bg_weights *weights"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_gpt_options_init": (None, [("options", POINTER(bg_gpt_options), "bg_gpt_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_gradient_check": (c_int, [("op_type", POINTER(bg_op_type), "const bg_op_type *op_type"), ("attributes", c_void_p, "const void *attributes"), ("types", POINTER(bg_type), "const bg_type *types"), ("values", POINTER(c_void_p), "const void *const *values"), ("input_count", c_uint32, "uint32_t input_count"), ("options", POINTER(bg_gradient_check_options), "const bg_gradient_check_options *options"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_gradient_check_options_init": (None, [("options", POINTER(bg_gradient_check_options), "bg_gradient_check_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_graph_add": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("op_type", POINTER(bg_op_type), "const bg_op_type *op_type"), ("name", c_char_p, "const char *name"), ("inputs", POINTER(bg_value), "const bg_value *inputs"), ("input_count", c_uint32, "uint32_t input_count"), ("attributes", c_void_p, "const void *attributes"), ("outputs", POINTER(bg_value), "bg_value *outputs")], False),
    "bg_graph_check": (c_int, [("graph", c_void_p, "const bg_graph *graph"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_graph_checkpoint": (None, [("graph", c_void_p, "bg_graph *graph"), ("value", bg_value, "bg_value value")], False),
    "bg_graph_constant": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("type", POINTER(bg_type), "const bg_type *type"), ("data", c_void_p, "const void *data")], False),
    "bg_graph_create": (c_int, [("out", POINTER(c_void_p), "bg_graph **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_graph_create_in": (c_int, [("allocator", POINTER(bg_allocator), "const bg_allocator *allocator"), ("out", POINTER(c_void_p), "bg_graph **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_graph_destroy": (None, [("graph", c_void_p, "bg_graph *graph")], False),
    "bg_graph_fail": (None, [("graph", c_void_p, "bg_graph *graph"), ("status", c_int, "bg_status status"), ("format", c_char_p, "const char *format")], True),
    "bg_graph_find_variable": (bg_value, [("graph", c_void_p, "const bg_graph *graph"), ("name", c_char_p, "const char *name")], False),
    "bg_graph_freeze": (None, [("graph", c_void_p, "bg_graph *graph"), ("pattern", c_char_p, "const char *pattern")], False),
    "bg_graph_initialize": (None, [("graph", c_void_p, "bg_graph *graph"), ("pattern", c_char_p, "const char *pattern"), ("rule", c_char_p, "const char *rule"), ("a", c_double, "double a"), ("b", c_double, "double b")], False),
    "bg_graph_input": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("type", POINTER(bg_type), "const bg_type *type")], False),
    "bg_graph_loop": (None, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("body", c_void_p, "const bg_graph *body"), ("loop", POINTER(bg_loop), "const bg_loop *loop"), ("inputs", POINTER(bg_value), "const bg_value *inputs"), ("input_count", c_uint32, "uint32_t input_count"), ("outputs", POINTER(bg_value), "bg_value *outputs")], False),
    "bg_graph_mesh": (bg_mesh, [("graph", c_void_p, "const bg_graph *graph")], False),
    "bg_graph_name": (c_char_p, [("graph", c_void_p, "const bg_graph *graph"), ("value", bg_value, "bg_value value")], False),
    "bg_graph_next_random_id": (c_uint32, [("graph", c_void_p, "bg_graph *graph")], False),
    "bg_graph_op_count": (c_uint32, [("graph", c_void_p, "const bg_graph *graph")], False),
    "bg_graph_output": (None, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("value", bg_value, "bg_value value")], False),
    "bg_graph_parameter": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("type", POINTER(bg_type), "const bg_type *type"), ("initializer", POINTER(bg_initializer), "const bg_initializer *initializer")], False),
    "bg_graph_print": (c_int, [("graph", c_void_p, "const bg_graph *graph"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_graph_print_dot": (c_int, [("graph", c_void_p, "const bg_graph *graph"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_graph_read_type": (None, [("graph", c_void_p, "const bg_graph *graph"), ("value", bg_value, "bg_value value"), ("out", POINTER(bg_type), "bg_type *out")], False),
    "bg_graph_remote_buffer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("entry", POINTER(bg_type), "const bg_type *entry"), ("entries", c_int64, "int64_t entries")], False),
    "bg_graph_section_parameter": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("section", POINTER(bg_section), "const bg_section *section"), ("initializer", POINTER(bg_initializer), "const bg_initializer *initializer")], False),
    "bg_graph_set_factors": (None, [("graph", c_void_p, "bg_graph *graph"), ("pattern", c_char_p, "const char *pattern"), ("rate_factor", c_double, "double rate_factor"), ("decay_factor", c_double, "double decay_factor")], False),
    "bg_graph_set_mesh": (None, [("graph", c_void_p, "bg_graph *graph"), ("mesh", POINTER(bg_mesh), "const bg_mesh *mesh")], False),
    "bg_graph_set_parameter_dtype": (None, [("graph", c_void_p, "bg_graph *graph"), ("dtype", c_int, "bg_dtype dtype")], False),
    "bg_graph_sharded_parameter": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("shard", POINTER(bg_shard), "const bg_shard *shard"), ("initializer", POINTER(bg_initializer), "const bg_initializer *initializer")], False),
    "bg_graph_sharded_variable": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("shard", POINTER(bg_shard), "const bg_shard *shard"), ("role", c_int, "bg_variable_role role"), ("initializer", POINTER(bg_initializer), "const bg_initializer *initializer")], False),
    "bg_graph_variable": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("type", POINTER(bg_type), "const bg_type *type"), ("role", c_int, "bg_variable_role role"), ("initializer", POINTER(bg_initializer), "const bg_initializer *initializer")], False),
    "bg_group_norm": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("groups", c_int64, "int64_t groups"), ("gamma", bg_value, "bg_value gamma"), ("beta", bg_value, "bg_value beta"), ("epsilon", c_double, "double epsilon")], False),
    "bg_group_norm_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("groups", c_int64, "int64_t groups"), ("epsilon", c_double, "double epsilon")], False),
    "bg_gru": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("weight", bg_value, "bg_value weight"), ("bias", bg_value, "bg_value bias"), ("h0", bg_value, "bg_value h0"), ("batch_first", c_bool, "bool batch_first"), ("reverse", c_bool, "bool reverse")], False),
    "bg_gru_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("width", c_int64, "int64_t width"), ("options", POINTER(bg_recurrent_options), "const bg_recurrent_options *options"), ("h0", bg_value, "bg_value h0"), ("out_h", POINTER(bg_value), "bg_value *out_h")], False),
    "bg_gru_reset_first": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("weight", bg_value, "bg_value weight"), ("bias", bg_value, "bg_value bias"), ("h0", bg_value, "bg_value h0"), ("batch_first", c_bool, "bool batch_first"), ("reverse", c_bool, "bool reverse")], False),
    "bg_identical_gradients": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axes", c_uint32, "uint32_t axes")], False),
    "bg_identical_inputs": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axes", c_uint32, "uint32_t axes")], False),
    "bg_idx_read": (c_int, [("path", c_char_p, "const char *path"), ("out", POINTER(bg_array), "bg_array *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_idx_write": (c_int, [("path", c_char_p, "const char *path"), ("array", POINTER(bg_array), "const bg_array *array"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_image_set_clear": (None, [("set", POINTER(bg_image_set), "bg_image_set *set")], False),
    "bg_image_set_read": (c_int, [("images_path", c_char_p, "const char *images_path"), ("labels_path", c_char_p, "const char *labels_path"), ("class_count", c_uint32, "uint32_t class_count"), ("out", POINTER(bg_image_set), "bg_image_set *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_image_set_write_mnist": (c_int, [("set", POINTER(bg_image_set), "const bg_image_set *set"), ("folder", c_char_p, "const char *folder"), ("is_training", c_bool, "bool is_training"), ("compress", c_bool, "bool compress"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_infeed_benchmark": (c_int, [("loader", c_void_p, "bg_loader *loader"), ("options", POINTER(bg_benchmark_options), "const bg_benchmark_options *options"), ("out_json", POINTER(c_char_p), "char **out_json"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_infeed_benchmark_source": (c_int, [("types", POINTER(bg_type), "const bg_type *types"), ("tensor_count", c_uint32, "uint32_t tensor_count"), ("source", bg_infeed_source, "bg_infeed_source source"), ("user", c_void_p, "void *user"), ("options", POINTER(bg_benchmark_options), "const bg_benchmark_options *options"), ("out_json", POINTER(c_char_p), "char **out_json"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_infeed_create": (c_int, [("types", POINTER(bg_type), "const bg_type *types"), ("tensor_count", c_uint32, "uint32_t tensor_count"), ("source", bg_infeed_source, "bg_infeed_source source"), ("user", c_void_p, "void *user"), ("options", POINTER(bg_infeed_options), "const bg_infeed_options *options"), ("out", POINTER(c_void_p), "bg_infeed **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_infeed_create_dataset": (c_int, [("dataset", c_void_p, "const bg_dataset *dataset"), ("options", POINTER(bg_infeed_options), "const bg_infeed_options *options"), ("out", POINTER(c_void_p), "bg_infeed **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_infeed_create_loader": (c_int, [("loader", c_void_p, "bg_loader *loader"), ("options", POINTER(bg_infeed_options), "const bg_infeed_options *options"), ("out", POINTER(c_void_p), "bg_infeed **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_infeed_create_samples": (c_int, [("types", POINTER(bg_type), "const bg_type *types"), ("tensor_count", c_uint32, "uint32_t tensor_count"), ("source", POINTER(bg_sample_source), "const bg_sample_source *source"), ("options", POINTER(bg_infeed_options), "const bg_infeed_options *options"), ("out", POINTER(c_void_p), "bg_infeed **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_infeed_destroy": (None, [("infeed", c_void_p, "bg_infeed *infeed")], False),
    "bg_infeed_has_ended": (c_bool, [("infeed", c_void_p, "const bg_infeed *infeed")], False),
    "bg_infeed_options_init": (None, [("options", POINTER(bg_infeed_options), "bg_infeed_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_infeed_plan": (c_void_p, [("infeed", c_void_p, "const bg_infeed *infeed")], False),
    "bg_infeed_start": (c_int, [("infeed", c_void_p, "bg_infeed *infeed"), ("session", c_void_p, "const bg_session *session"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_infeed_used_count": (c_uint64, [("infeed", c_void_p, "const bg_infeed *infeed")], False),
    "bg_interpolate": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("options", POINTER(bg_interpolate_options), "const bg_interpolate_options *options")], False),
    "bg_interpolate_options_init": (None, [("options", POINTER(bg_interpolate_options), "bg_interpolate_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("mode", c_int, "bg_interpolation mode")], False),
    "bg_ipu_config_batch_size_factor": (c_uint64, [("config", c_void_p, "const bg_ipu_config *config"), ("for_inference", c_bool, "bool for_inference")], False),
    "bg_ipu_config_clone": (c_int, [("config", c_void_p, "const bg_ipu_config *config"), ("out", POINTER(c_void_p), "bg_ipu_config **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_create": (c_int, [("out", POINTER(c_void_p), "bg_ipu_config **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_destroy": (None, [("config", c_void_p, "bg_ipu_config *config")], False),
    "bg_ipu_config_equal": (c_bool, [("a", c_void_p, "const bg_ipu_config *a"), ("b", c_void_p, "const bg_ipu_config *b")], False),
    "bg_ipu_config_field_at": (c_char_p, [("index", c_size_t, "size_t index")], False),
    "bg_ipu_config_field_help": (c_char_p, [("index", c_size_t, "size_t index")], False),
    "bg_ipu_config_get": (c_int, [("config", c_void_p, "const bg_ipu_config *config"), ("name", c_char_p, "const char *name"), ("out", POINTER(bg_config_value), "bg_config_value *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_load": (c_int, [("path", c_char_p, "const char *path"), ("options", POINTER(bg_ipu_config_load_options), "const bg_ipu_config_load_options *options"), ("out", POINTER(c_void_p), "bg_ipu_config **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_mode": (c_char_p, [("config", c_void_p, "const bg_ipu_config *config")], False),
    "bg_ipu_config_parse_json": (c_int, [("text", c_char_p, "const char *text"), ("name", c_char_p, "const char *name"), ("options", POINTER(bg_ipu_config_load_options), "const bg_ipu_config_load_options *options"), ("out", POINTER(c_void_p), "bg_ipu_config **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_parse_yaml": (c_int, [("text", c_char_p, "const char *text"), ("name", c_char_p, "const char *name"), ("options", POINTER(bg_ipu_config_load_options), "const bg_ipu_config_load_options *options"), ("out", POINTER(c_void_p), "bg_ipu_config **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_print": (c_int, [("config", c_void_p, "const bg_ipu_config *config"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_print_json": (c_int, [("config", c_void_p, "const bg_ipu_config *config"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_print_notes": (c_int, [("config", c_void_p, "const bg_ipu_config *config"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_print_yaml": (c_int, [("config", c_void_p, "const bg_ipu_config *config"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_save": (c_int, [("config", c_void_p, "const bg_ipu_config *config"), ("folder", c_char_p, "const char *folder"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_set": (c_int, [("config", c_void_p, "bg_ipu_config *config"), ("name", c_char_p, "const char *name"), ("value", POINTER(bg_config_value), "const bg_config_value *value"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_set_mode": (c_int, [("config", c_void_p, "bg_ipu_config *config"), ("mode", c_char_p, "const char *mode"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_set_version_written": (None, [("config", c_void_p, "bg_ipu_config *config"), ("is_written", c_bool, "bool is_written")], False),
    "bg_ipu_config_split_encoder_decoder": (c_int, [("config", c_void_p, "const bg_ipu_config *config"), ("encoder_layers", c_uint64, "uint64_t encoder_layers"), ("decoder_layers", c_uint64, "uint64_t decoder_layers"), ("out_encoder", POINTER(c_void_p), "bg_ipu_config **out_encoder"), ("out_decoder", POINTER(c_void_p), "bg_ipu_config **out_decoder"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_to_options": (c_int, [("config", c_void_p, "const bg_ipu_config *config"), ("for_inference", c_bool, "bool for_inference"), ("compile_only", c_bool, "bool compile_only"), ("model", POINTER(bg_ipu_model), "const bg_ipu_model *model"), ("out", POINTER(bg_ipu_options), "bg_ipu_options *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_config_update_from_string": (c_int, [("config", c_void_p, "bg_ipu_config *config"), ("text", c_char_p, "const char *text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_embedding_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("config", c_void_p, "const bg_ipu_config *config"), ("for_inference", c_bool, "bool for_inference"), ("name", c_char_p, "const char *name"), ("ids", bg_value, "bg_value ids"), ("row_count", c_int64, "int64_t row_count"), ("width", c_int64, "int64_t width"), ("padding_index", c_int64, "int64_t padding_index"), ("dtype", c_int, "bg_dtype dtype")], False),
    "bg_ipu_options_clear": (None, [("options", POINTER(bg_ipu_options), "bg_ipu_options *options")], False),
    "bg_ipu_projection_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("config", c_void_p, "const bg_ipu_config *config"), ("for_inference", c_bool, "bool for_inference"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("out_features", c_int64, "int64_t out_features"), ("bias", c_bool, "bool bias")], False),
    "bg_ipu_strategy_init": (None, [("options", POINTER(bg_ipu_strategy), "bg_ipu_strategy *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_ipu_strategy_options": (c_int, [("strategy", POINTER(bg_ipu_strategy), "const bg_ipu_strategy *strategy"), ("training", c_bool, "bool training"), ("accumulate_grad_batches", c_uint32, "uint32_t accumulate_grad_batches"), ("out", POINTER(bg_options), "bg_options *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_ipu_strategy_replicas": (c_uint32, [("strategy", POINTER(bg_ipu_strategy), "const bg_ipu_strategy *strategy")], False),
    "bg_ipu_strategy_set_devices": (c_int, [("strategy", POINTER(bg_ipu_strategy), "bg_ipu_strategy *strategy"), ("text", c_char_p, "const char *text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_layer_norm": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("gamma", bg_value, "bg_value gamma"), ("beta", bg_value, "bg_value beta"), ("epsilon", c_double, "double epsilon")], False),
    "bg_layer_norm_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("epsilon", c_double, "double epsilon")], False),
    "bg_layers_expand": (c_int, [("layers", POINTER(c_int64), "const int64_t *layers"), ("count", c_size_t, "size_t count"), ("device_count", c_uint32, "uint32_t device_count"), ("layer_count", c_uint64, "uint64_t layer_count"), ("out", POINTER(c_int64), "int64_t *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_length_mask": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("lengths", bg_value, "bg_value lengths"), ("length", c_int64, "int64_t length")], False),
    "bg_likelihood_sums": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("logits", bg_value, "bg_value logits"), ("labels", bg_value, "bg_value labels"), ("ignore_index", c_int64, "int64_t ignore_index")], False),
    "bg_linear": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("weight", bg_value, "bg_value weight"), ("bias", bg_value, "bg_value bias")], False),
    "bg_linear_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("out_features", c_int64, "int64_t out_features"), ("bias", c_bool, "bool bias")], False),
    "bg_loader_batch_count": (c_uint64, [("loader", c_void_p, "const bg_loader *loader")], False),
    "bg_loader_batch_size": (c_uint64, [("loader", c_void_p, "const bg_loader *loader")], False),
    "bg_loader_begin_at": (c_int, [("loader", c_void_p, "bg_loader *loader"), ("epoch", c_uint64, "uint64_t epoch"), ("position", c_uint64, "uint64_t position"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_loader_begin_epoch": (c_int, [("loader", c_void_p, "bg_loader *loader"), ("epoch", c_uint64, "uint64_t epoch"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_loader_create": (c_int, [("dataset", c_void_p, "const bg_dataset *dataset"), ("options", POINTER(bg_loader_options), "const bg_loader_options *options"), ("out", POINTER(c_void_p), "bg_loader **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_loader_create_stream": (c_int, [("stream", POINTER(bg_sample_stream), "const bg_sample_stream *stream"), ("options", POINTER(bg_loader_options), "const bg_loader_options *options"), ("out", POINTER(c_void_p), "bg_loader **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_loader_destroy": (None, [("loader", c_void_p, "bg_loader *loader")], False),
    "bg_loader_dropped_count": (c_uint64, [("loader", c_void_p, "const bg_loader *loader")], False),
    "bg_loader_help": (c_bool, [("loader", c_void_p, "bg_loader *loader")], False),
    "bg_loader_judge": (c_int, [("statistics", POINTER(bg_loader_statistics), "const bg_loader_statistics *statistics"), ("run_ns", c_uint64, "uint64_t run_ns"), ("text", c_char_p, "char *text")], False),
    "bg_loader_next": (c_int, [("loader", c_void_p, "bg_loader *loader"), ("out", POINTER(bg_batch), "bg_batch *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_loader_options_init": (None, [("options", POINTER(bg_loader_options), "bg_loader_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_loader_read_statistics": (None, [("loader", c_void_p, "const bg_loader *loader"), ("out", POINTER(bg_loader_statistics), "bg_loader_statistics *out")], False),
    "bg_loader_sample_types": (POINTER(bg_type), [("loader", c_void_p, "const bg_loader *loader"), ("out_tensor_count", POINTER(c_uint32), "uint32_t *out_tensor_count")], False),
    "bg_loader_want": (None, [("loader", c_void_p, "bg_loader *loader"), ("wanted", CFUNCTYPE(c_uint32, c_void_p, c_uint64), "uint32_t (*wanted)(void *user, uint64_t sample)"), ("user", c_void_p, "void *user")], False),
    "bg_log_softmax": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis")], False),
    "bg_logical": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("function", c_int, "bg_logic function"), ("a", bg_value, "bg_value a"), ("b", bg_value, "bg_value b")], False),
    "bg_logical_not": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x")], False),
    "bg_lstm": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("weight", bg_value, "bg_value weight"), ("bias", bg_value, "bg_value bias"), ("h0", bg_value, "bg_value h0"), ("c0", bg_value, "bg_value c0"), ("batch_first", c_bool, "bool batch_first"), ("reverse", c_bool, "bool reverse"), ("out_c", POINTER(bg_value), "bg_value *out_c")], False),
    "bg_lstm_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("width", c_int64, "int64_t width"), ("options", POINTER(bg_recurrent_options), "const bg_recurrent_options *options"), ("h0", bg_value, "bg_value h0"), ("c0", bg_value, "bg_value c0"), ("out_h", POINTER(bg_value), "bg_value *out_h"), ("out_c", POINTER(bg_value), "bg_value *out_c")], False),
    "bg_matmul": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("a", bg_value, "bg_value a"), ("b", bg_value, "bg_value b"), ("transpose_a", c_bool, "bool transpose_a"), ("transpose_b", c_bool, "bool transpose_b")], False),
    "bg_max_pool": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("options", POINTER(bg_pool_options), "const bg_pool_options *options")], False),
    "bg_max_pool2d": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("options", POINTER(bg_pool2d_options), "const bg_pool2d_options *options")], False),
    "bg_memory_class_name": (c_char_p, [("memory_class", c_int, "bg_memory_class memory_class")], False),
    "bg_mesh_coordinates": (bg_mesh, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh"), ("replica", c_uint32, "uint32_t replica")], False),
    "bg_mesh_find_axes": (c_int, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh"), ("groups", POINTER(c_uint32), "const uint32_t *groups"), ("out_axes", POINTER(c_uint32), "uint32_t *out_axes"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_mesh_group_at": (c_uint32, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh"), ("axes", c_uint32, "uint32_t axes"), ("replica", c_uint32, "uint32_t replica"), ("member", c_uint32, "uint32_t member")], False),
    "bg_mesh_group_index": (c_uint32, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh"), ("axes", c_uint32, "uint32_t axes"), ("replica", c_uint32, "uint32_t replica")], False),
    "bg_mesh_group_member": (c_uint32, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh"), ("axes", c_uint32, "uint32_t axes"), ("replica", c_uint32, "uint32_t replica")], False),
    "bg_mesh_group_size": (c_uint32, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh"), ("axes", c_uint32, "uint32_t axes")], False),
    "bg_mesh_replica": (c_uint32, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh"), ("coordinates", POINTER(bg_mesh), "const bg_mesh *coordinates")], False),
    "bg_mesh_replica_count": (c_uint32, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh")], False),
    "bg_mesh_validate": (c_int, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_mnist_download": (c_int, [("options", POINTER(bg_mnist_download_options), "const bg_mnist_download_options *options"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_mnist_download_options_init": (None, [("options", POINTER(bg_mnist_download_options), "bg_mnist_download_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("folder", c_char_p, "const char *folder")], False),
    "bg_mnist_load": (c_int, [("folders", POINTER(c_char_p), "const char *const *folders"), ("folder_count", c_size_t, "size_t folder_count"), ("is_training", c_bool, "bool is_training"), ("out", POINTER(bg_image_set), "bg_image_set *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_mse_loss": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("prediction", bg_value, "bg_value prediction"), ("target", bg_value, "bg_value target"), ("reduction", c_int, "bg_loss_reduction reduction")], False),
    "bg_multiply": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("a", bg_value, "bg_value a"), ("b", bg_value, "bg_value b")], False),
    "bg_nll_loss": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("log_probabilities", bg_value, "bg_value log_probabilities"), ("labels", bg_value, "bg_value labels"), ("class_weights", bg_value, "bg_value class_weights"), ("reduction", c_int, "bg_loss_reduction reduction"), ("ignore_index", c_int64, "int64_t ignore_index")], False),
    "bg_npy_read": (c_int, [("path", c_char_p, "const char *path"), ("out", POINTER(bg_array), "bg_array *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_npy_write": (c_int, [("path", c_char_p, "const char *path"), ("array", POINTER(bg_array), "const bg_array *array"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_npz_clear": (None, [("npz", POINTER(bg_npz), "bg_npz *npz")], False),
    "bg_npz_find": (POINTER(bg_array), [("npz", POINTER(bg_npz), "const bg_npz *npz"), ("name", c_char_p, "const char *name")], False),
    "bg_npz_read": (c_int, [("path", c_char_p, "const char *path"), ("out", POINTER(bg_npz), "bg_npz *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_one_hot": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("ids", bg_value, "bg_value ids"), ("classes", c_int64, "int64_t classes"), ("dtype", c_int, "bg_dtype dtype")], False),
    "bg_onnx_build": (c_int, [("onnx", c_void_p, "bg_onnx *onnx"), ("options", POINTER(bg_onnx_options), "const bg_onnx_options *options"), ("graph", c_void_p, "bg_graph *graph"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_onnx_contents_of": (POINTER(bg_onnx_contents), [("onnx", c_void_p, "const bg_onnx *onnx")], False),
    "bg_onnx_destroy": (None, [("onnx", c_void_p, "bg_onnx *onnx")], False),
    "bg_onnx_load": (c_int, [("path", c_char_p, "const char *path"), ("options", POINTER(bg_onnx_options), "const bg_onnx_options *options"), ("out_graph", POINTER(c_void_p), "bg_graph **out_graph"), ("out_weights", POINTER(c_void_p), "bg_weights **out_weights"), ("out", POINTER(c_void_p), "bg_onnx **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_onnx_metadata_find": (c_char_p, [("onnx", c_void_p, "const bg_onnx *onnx"), ("key", c_char_p, "const char *key")], False),
    "bg_onnx_metadata_set": (c_int, [("onnx", c_void_p, "bg_onnx *onnx"), ("key", c_char_p, "const char *key"), ("value", c_char_p, "const char *value"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_onnx_open": (c_int, [("path", c_char_p, "const char *path"), ("out", POINTER(c_void_p), "bg_onnx **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_onnx_options_init": (None, [("options", POINTER(bg_onnx_options), "bg_onnx_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_onnx_save": (c_int, [("graph", c_void_p, "const bg_graph *graph"), ("weights", c_void_p, "bg_weights *weights"), ("path", c_char_p, "const char *path"), ("options", POINTER(bg_onnx_save_options), "const bg_onnx_save_options *options"), ("out", POINTER(bg_onnx_saved), "bg_onnx_saved *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_onnx_save_options_init": (None, [("options", POINTER(bg_onnx_save_options), "bg_onnx_save_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_onnx_save_weights": (c_int, [("onnx", c_void_p, "const bg_onnx *onnx"), ("weights", c_void_p, "bg_weights *weights"), ("path", c_char_p, "const char *path"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_onnx_set_weights": (c_int, [("onnx", c_void_p, "const bg_onnx *onnx"), ("weights", c_void_p, "bg_weights *weights"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_optimizer_describe_state": (None, [("optimizer", POINTER(bg_optimizer), "const bg_optimizer *optimizer"), ("text", c_char_p, "char *text")], False),
    "bg_optimizer_init": (None, [("optimizer", POINTER(bg_optimizer), "bg_optimizer *optimizer"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("kind", c_int, "bg_optimizer_kind kind"), ("learning_rate", c_double, "double learning_rate")], False),
    "bg_optimizer_name": (c_char_p, [("kind", c_int, "bg_optimizer_kind kind")], False),
    "bg_optimizer_parse": (c_int, [("text", c_char_p, "const char *text"), ("learning_rate", c_double, "double learning_rate"), ("out", POINTER(bg_optimizer), "bg_optimizer *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_optimizer_state_kinds": (c_char_p, [("optimizer", POINTER(bg_optimizer), "const bg_optimizer *optimizer")], False),
    "bg_optimizer_validate": (c_int, [("optimizer", POINTER(bg_optimizer), "const bg_optimizer *optimizer"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_option_value_find": (c_bool, [("option", c_char_p, "const char *option"), ("word", c_char_p, "const char *word"), ("out", POINTER(c_int), "int *out")], False),
    "bg_option_value_name": (c_char_p, [("option", c_char_p, "const char *option"), ("value", c_int, "int value")], False),
    "bg_options_init": (None, [("options", POINTER(bg_options), "bg_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_options_print": (c_int, [("options", POINTER(bg_options), "const bg_options *options"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_options_problems": (c_int, [("options", POINTER(bg_options), "const bg_options *options"), ("training", c_bool, "bool training"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_options_set": (c_int, [("options", POINTER(bg_options), "bg_options *options"), ("name", c_char_p, "const char *name"), ("text", c_char_p, "const char *text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_outfeed_attach": (c_int, [("outfeed", c_void_p, "bg_outfeed *outfeed"), ("session", c_void_p, "bg_session *session"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_outfeed_create": (c_int, [("options", POINTER(bg_outfeed_options), "const bg_outfeed_options *options"), ("out", POINTER(c_void_p), "bg_outfeed **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_outfeed_dequeue": (c_int, [("outfeed", c_void_p, "bg_outfeed *outfeed"), ("wait_for_completion", c_bool, "bool wait_for_completion"), ("arrays", POINTER(bg_array), "bg_array *arrays"), ("out_row_count", POINTER(c_uint64), "uint64_t *out_row_count"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_outfeed_destroy": (None, [("outfeed", c_void_p, "bg_outfeed *outfeed")], False),
    "bg_outfeed_find": (c_uint32, [("outfeed", c_void_p, "const bg_outfeed *outfeed"), ("path", c_char_p, "const char *path")], False),
    "bg_outfeed_leaf_at": (c_int, [("outfeed", c_void_p, "const bg_outfeed *outfeed"), ("index", c_uint32, "uint32_t index"), ("out", POINTER(bg_outfeed_leaf), "bg_outfeed_leaf *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_outfeed_leaf_count": (c_uint32, [("outfeed", c_void_p, "const bg_outfeed *outfeed")], False),
    "bg_outfeed_next": (c_int, [("outfeed", c_void_p, "bg_outfeed *outfeed"), ("leaves", POINTER(c_void_p), "void *const *leaves"), ("out_has", POINTER(c_bool), "bool *out_has"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_outfeed_options_init": (None, [("options", POINTER(bg_outfeed_options), "bg_outfeed_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_outfeed_structure": (c_char_p, [("outfeed", c_void_p, "const bg_outfeed *outfeed")], False),
    "bg_outfeed_wait": (c_int, [("outfeed", c_void_p, "bg_outfeed *outfeed"), ("limit_s", c_double, "double limit_s"), ("out_has", POINTER(c_bool), "bool *out_has"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_pad": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("mode", c_int, "bg_pad_mode mode"), ("before", POINTER(c_int64), "const int64_t *before"), ("after", POINTER(c_int64), "const int64_t *after"), ("value", c_double, "double value")], False),
    "bg_parallel_embedding": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("table", bg_value, "bg_value table"), ("ids", bg_value, "bg_value ids")], False),
    "bg_parallel_layer_norm_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("epsilon", c_double, "double epsilon"), ("axis", c_int, "bg_mesh_axis axis")], False),
    "bg_parallel_linear_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("out_features", c_int64, "int64_t out_features"), ("options", POINTER(bg_parallel_linear_options), "const bg_parallel_linear_options *options")], False),
    "bg_parallel_linear_options_init": (None, [("options", POINTER(bg_parallel_linear_options), "bg_parallel_linear_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("in_axis", c_int, "bg_mesh_axis in_axis")], False),
    "bg_parallel_logits": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("table", bg_value, "bg_value table")], False),
    "bg_parallel_table": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("rows", c_int64, "int64_t rows"), ("width", c_int64, "int64_t width"), ("initializer", POINTER(bg_initializer), "const bg_initializer *initializer")], False),
    "bg_philox": (None, [("counter", POINTER(c_uint32), "const uint32_t counter[4]"), ("key", POINTER(c_uint32), "const uint32_t key[2]"), ("out", POINTER(c_uint32), "uint32_t out[4]")], False),
    "bg_plan_block_at": (bg_plan_block, [("plan", c_void_p, "const bg_plan *plan"), ("index", c_uint32, "uint32_t index")], False),
    "bg_plan_create_inference": (c_int, [("graph", c_void_p, "const bg_graph *graph"), ("options", POINTER(bg_options), "const bg_options *options"), ("out", POINTER(c_void_p), "bg_plan **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_plan_create_loop": (c_int, [("body", c_void_p, "const bg_graph *body"), ("loop", POINTER(bg_loop), "const bg_loop *loop"), ("options", POINTER(bg_options), "const bg_options *options"), ("out", POINTER(c_void_p), "bg_plan **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_plan_create_training": (c_int, [("graph", c_void_p, "const bg_graph *graph"), ("loss", bg_value, "bg_value loss"), ("optimizer", POINTER(bg_optimizer), "const bg_optimizer *optimizer"), ("options", POINTER(bg_options), "const bg_options *options"), ("out", POINTER(c_void_p), "bg_plan **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_plan_destroy": (None, [("plan", c_void_p, "bg_plan *plan")], False),
    "bg_plan_device_bytes": (c_size_t, [("plan", c_void_p, "const bg_plan *plan"), ("device", c_uint32, "uint32_t device")], False),
    "bg_plan_instruction_count": (c_uint32, [("plan", c_void_p, "const bg_plan *plan"), ("device", c_uint32, "uint32_t device")], False),
    "bg_plan_mark_edges": (None, [("plan", c_void_p, "const bg_plan *plan"), ("device", c_uint32, "uint32_t device"), ("index", c_uint32, "uint32_t index"), ("marks", POINTER(c_bool), "bool *marks")], False),
    "bg_plan_memory_bytes": (c_size_t, [("plan", c_void_p, "const bg_plan *plan"), ("device", c_uint32, "uint32_t device"), ("memory_class", c_int, "bg_memory_class memory_class")], False),
    "bg_plan_optimizer": (POINTER(bg_optimizer), [("plan", c_void_p, "const bg_plan *plan")], False),
    "bg_plan_options": (POINTER(bg_options), [("plan", c_void_p, "const bg_plan *plan")], False),
    "bg_plan_pass_at": (c_char_p, [("index", c_uint32, "uint32_t index"), ("out_what", POINTER(c_char_p), "const char **out_what")], False),
    "bg_plan_print_memory": (c_int, [("plan", c_void_p, "const bg_plan *plan"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_plan_print_phases": (c_int, [("plan", c_void_p, "const bg_plan *plan"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_plan_print_placement": (c_int, [("plan", c_void_p, "const bg_plan *plan"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_plan_print_program": (c_int, [("plan", c_void_p, "const bg_plan *plan"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_plan_print_ranks": (c_int, [("plan", c_void_p, "const bg_plan *plan"), ("rank_count", c_uint32, "uint32_t rank_count"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_plan_print_remote": (c_int, [("plan", c_void_p, "const bg_plan *plan"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_plan_print_timetable": (c_int, [("plan", c_void_p, "const bg_plan *plan"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_plan_read_edge": (None, [("plan", c_void_p, "const bg_plan *plan"), ("index", c_uint32, "uint32_t index"), ("out", POINTER(bg_plan_edge), "bg_plan_edge *out")], False),
    "bg_plan_read_instruction": (None, [("plan", c_void_p, "const bg_plan *plan"), ("device", c_uint32, "uint32_t device"), ("index", c_uint32, "uint32_t index"), ("out", POINTER(bg_plan_instruction), "bg_plan_instruction *out")], False),
    "bg_plan_read_summary": (None, [("plan", c_void_p, "const bg_plan *plan"), ("out", POINTER(bg_plan_summary), "bg_plan_summary *out")], False),
    "bg_plan_read_variable": (None, [("plan", c_void_p, "const bg_plan *plan"), ("index", c_uint32, "uint32_t index"), ("out", POINTER(bg_plan_variable), "bg_plan_variable *out")], False),
    "bg_plan_remote_bytes": (c_size_t, [("plan", c_void_p, "const bg_plan *plan"), ("device", c_uint32, "uint32_t device"), ("location_class", c_int, "bg_location_class location_class")], False),
    "bg_plan_schedule": (c_void_p, [("plan", c_void_p, "const bg_plan *plan")], False),
    "bg_plan_schedule_name": (c_char_p, [("plan", c_void_p, "const bg_plan *plan")], False),
    "bg_plan_stage_device": (c_uint32, [("plan", c_void_p, "const bg_plan *plan"), ("stage", c_uint32, "uint32_t stage")], False),
    "bg_plan_traffic_bytes": (c_uint64, [("plan", c_void_p, "const bg_plan *plan"), ("device", c_uint32, "uint32_t device"), ("traffic", c_int, "bg_plan_traffic traffic"), ("location_class", c_int, "bg_location_class location_class")], False),
    "bg_plan_traffic_name": (c_char_p, [("traffic", c_int, "bg_plan_traffic traffic")], False),
    "bg_plan_transfer_count": (c_uint32, [("plan", c_void_p, "const bg_plan *plan"), ("device", c_uint32, "uint32_t device")], False),
    "bg_png_read": (c_int, [("path", c_char_p, "const char *path"), ("channels", c_uint32, "uint32_t channels"), ("out", POINTER(bg_array), "bg_array *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_pointwise_loss": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("function", c_int, "bg_pointwise_loss_function function"), ("parameter", c_double, "double parameter"), ("prediction", bg_value, "bg_value prediction"), ("target", bg_value, "bg_value target"), ("reduction", c_int, "bg_loss_reduction reduction")], False),
    "bg_pool2d_options_init": (None, [("options", POINTER(bg_pool2d_options), "bg_pool2d_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("kernel_size", c_int64, "int64_t kernel_size")], False),
    "bg_pool_options_init": (None, [("options", POINTER(bg_pool_options), "bg_pool_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("kernel_size", c_int64, "int64_t kernel_size")], False),
    "bg_power": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("x", bg_value, "bg_value x"), ("exponent", c_double, "double exponent")], False),
    "bg_prelu": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("slope", bg_value, "bg_value slope")], False),
    "bg_processor_count": (c_uint32, [], False),
    "bg_profile_costs": (c_int, [("session", c_void_p, "const bg_session *session"), ("plan", c_void_p, "const bg_plan *plan"), ("out_costs", POINTER(bg_stage_cost), "bg_stage_cost *out_costs"), ("out_bytes_per_ns", POINTER(c_double), "double *out_bytes_per_ns"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_profile_measure": (c_int, [("plan", c_void_p, "const bg_plan *plan"), ("run_count", c_uint32, "uint32_t run_count"), ("out_costs", POINTER(bg_stage_cost), "bg_stage_cost *out_costs"), ("out_bytes_per_ns", POINTER(c_double), "double *out_bytes_per_ns"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_profile_print_report": (c_int, [("folder", c_char_p, "const char *folder"), ("other", c_char_p, "const char *other"), ("colored", c_bool, "bool colored"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_profile_print_summary": (c_int, [("session", c_void_p, "const bg_session *session"), ("plan", c_void_p, "const bg_plan *plan"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_profile_report": (c_int, [("folder", c_char_p, "const char *folder"), ("other", c_char_p, "const char *other"), ("path", c_char_p, "const char *path"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_profile_start": (c_int, [("session", c_void_p, "bg_session *session"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_profile_stop": (c_int, [("session", c_void_p, "bg_session *session"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_profile_write": (c_int, [("session", c_void_p, "bg_session *session"), ("notes", POINTER(bg_profile_notes), "const bg_profile_notes *notes"), ("folder", c_char_p, "const char *folder"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_profile_write_trace": (c_int, [("session", c_void_p, "const bg_session *session"), ("plan", c_void_p, "const bg_plan *plan"), ("path", c_char_p, "const char *path"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_rate_at": (c_double, [("schedule", c_void_p, "void *schedule"), ("step", c_uint64, "uint64_t step")], False),
    "bg_rate_init": (None, [("schedule", POINTER(bg_rate_schedule), "bg_rate_schedule *schedule"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("kind", c_int, "bg_rate_kind kind"), ("rate", c_double, "double rate"), ("steps", c_uint64, "uint64_t steps")], False),
    "bg_rate_parse": (c_int, [("text", c_char_p, "const char *text"), ("rate", c_double, "double rate"), ("steps", c_uint64, "uint64_t steps"), ("out", POINTER(bg_rate_schedule), "bg_rate_schedule *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_rate_report": (None, [("schedule", POINTER(bg_rate_schedule), "bg_rate_schedule *schedule"), ("value", c_double, "double value")], False),
    "bg_rate_validate": (c_int, [("schedule", POINTER(bg_rate_schedule), "const bg_rate_schedule *schedule"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_rates_judge": (c_int, [("data_rate", c_double, "double data_rate"), ("device_rate", c_double, "double device_rate"), ("is_ahead", c_bool, "bool is_ahead"), ("text", c_char_p, "char *text")], False),
    "bg_recurrent_options_init": (None, [("options", POINTER(bg_recurrent_options), "bg_recurrent_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_reduce": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("function", c_int, "bg_reduction function"), ("x", bg_value, "bg_value x"), ("axes", POINTER(c_int32), "const int32_t *axes"), ("axis_count", c_uint32, "uint32_t axis_count"), ("keep_dims", c_bool, "bool keep_dims")], False),
    "bg_reduce_scatter": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis"), ("axes", c_uint32, "uint32_t axes")], False),
    "bg_relu": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("x", bg_value, "bg_value x")], False),
    "bg_remote_load": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("buffer", bg_value, "bg_value buffer"), ("index", bg_value, "bg_value index")], False),
    "bg_remote_store": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("buffer", bg_value, "bg_value buffer"), ("index", bg_value, "bg_value index"), ("value", bg_value, "bg_value value")], False),
    "bg_replica_group_assign": (c_int, [("replicas", c_uint32, "uint32_t replicas"), ("group", POINTER(bg_replica_group), "const bg_replica_group *group"), ("out_groups", POINTER(c_uint32), "uint32_t *out_groups"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_replica_group_constant": (c_int, [("replicas", c_uint32, "uint32_t replicas"), ("groups", POINTER(c_uint32), "const uint32_t *groups"), ("out", POINTER(bg_replica_group), "bg_replica_group *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_replica_group_resolve": (c_int, [("replicas", c_uint32, "uint32_t replicas"), ("asked", POINTER(bg_replica_group), "const bg_replica_group *asked"), ("out", POINTER(bg_replica_group), "bg_replica_group *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_replica_group_transpose": (c_int, [("replicas", c_uint32, "uint32_t replicas"), ("groups", POINTER(c_uint32), "const uint32_t *groups"), ("out_groups", POINTER(c_uint32), "uint32_t *out_groups"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_reshape": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("rank", c_uint32, "uint32_t rank"), ("dims", POINTER(c_int64), "const int64_t *dims")], False),
    "bg_rms_norm": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("gamma", bg_value, "bg_value gamma"), ("epsilon", c_double, "double epsilon")], False),
    "bg_rms_norm_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("epsilon", c_double, "double epsilon")], False),
    "bg_rnn": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("weight", bg_value, "bg_value weight"), ("bias", bg_value, "bg_value bias"), ("h0", bg_value, "bg_value h0"), ("relu", c_bool, "bool relu"), ("batch_first", c_bool, "bool batch_first"), ("reverse", c_bool, "bool reverse")], False),
    "bg_rnn_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("width", c_int64, "int64_t width"), ("options", POINTER(bg_recurrent_options), "const bg_recurrent_options *options"), ("h0", bg_value, "bg_value h0"), ("out_h", POINTER(bg_value), "bg_value *out_h")], False),
    "bg_roll": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis"), ("shift", c_int64, "int64_t shift")], False),
    "bg_rotary": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("positions", bg_value, "bg_value positions"), ("options", POINTER(bg_rotary_options), "const bg_rotary_options *options")], False),
    "bg_rotary_options_init": (None, [("options", POINTER(bg_rotary_options), "bg_rotary_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("heads", c_int64, "int64_t heads")], False),
    "bg_run_options_add_anchor": (c_int, [("options", c_void_p, "bg_run_options *options"), ("output", c_char_p, "const char *output"), ("name", c_char_p, "const char *name"), ("mode", c_int, "bg_output_mode mode"), ("period", c_uint32, "uint32_t period"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_apply": (None, [("options", c_void_p, "bg_run_options *options"), ("to", POINTER(bg_options), "bg_options *to")], False),
    "bg_run_options_clone": (c_int, [("options", c_void_p, "const bg_run_options *options"), ("out", POINTER(c_void_p), "bg_run_options **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_create": (c_int, [("from", POINTER(bg_options), "const bg_options *from"), ("out", POINTER(c_void_p), "bg_run_options **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_destroy": (None, [("options", c_void_p, "bg_run_options *options")], False),
    "bg_run_options_get": (c_int, [("options", c_void_p, "bg_run_options *options"), ("name", c_char_p, "const char *name"), ("out", POINTER(bg_config_value), "bg_config_value *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_is_given": (c_bool, [("options", c_void_p, "const bg_run_options *options"), ("name", c_char_p, "const char *name")], False),
    "bg_run_options_load": (c_int, [("options", c_void_p, "bg_run_options *options"), ("path", c_char_p, "const char *path"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_parse": (c_int, [("options", c_void_p, "bg_run_options *options"), ("text", c_char_p, "const char *text"), ("name", c_char_p, "const char *name"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_print_json": (c_int, [("options", c_void_p, "const bg_run_options *options"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_read_environment": (c_int, [("options", c_void_p, "bg_run_options *options"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_set": (c_int, [("options", c_void_p, "bg_run_options *options"), ("name", c_char_p, "const char *name"), ("text", c_char_p, "const char *text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_set_integer": (c_int, [("options", c_void_p, "bg_run_options *options"), ("name", c_char_p, "const char *name"), ("value", c_int64, "int64_t value"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_set_text": (c_int, [("options", c_void_p, "bg_run_options *options"), ("name", c_char_p, "const char *name"), ("value", c_char_p, "const char *value"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_set_transport": (c_int, [("options", c_void_p, "bg_run_options *options"), ("transport", POINTER(bg_transport), "const struct bg_transport *transport"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_set_value": (c_int, [("options", c_void_p, "bg_run_options *options"), ("name", c_char_p, "const char *name"), ("value", POINTER(bg_config_value), "const bg_config_value *value"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_run_options_use": (POINTER(bg_options), [("options", c_void_p, "bg_run_options *options")], False),
    "bg_run_options_view": (POINTER(bg_options), [("options", c_void_p, "const bg_run_options *options")], False),
    "bg_safetensors_at": (POINTER(bg_safetensors_entry), [("file", c_void_p, "const bg_safetensors *file"), ("index", c_size_t, "size_t index")], False),
    "bg_safetensors_count": (c_size_t, [("file", c_void_p, "const bg_safetensors *file")], False),
    "bg_safetensors_destroy": (None, [("file", c_void_p, "bg_safetensors *file")], False),
    "bg_safetensors_find": (POINTER(bg_safetensors_entry), [("file", c_void_p, "const bg_safetensors *file"), ("name", c_char_p, "const char *name")], False),
    "bg_safetensors_metadata_at": (POINTER(bg_safetensors_metadata), [("file", c_void_p, "const bg_safetensors *file"), ("index", c_size_t, "size_t index")], False),
    "bg_safetensors_metadata_count": (c_size_t, [("file", c_void_p, "const bg_safetensors *file")], False),
    "bg_safetensors_metadata_find": (c_char_p, [("file", c_void_p, "const bg_safetensors *file"), ("key", c_char_p, "const char *key")], False),
    "bg_safetensors_open": (c_int, [("path", c_char_p, "const char *path"), ("out", POINTER(c_void_p), "bg_safetensors **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_safetensors_open_header": (c_int, [("path", c_char_p, "const char *path"), ("out", POINTER(c_void_p), "bg_safetensors **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_safetensors_read": (c_int, [("file", c_void_p, "const bg_safetensors *file"), ("entry", POINTER(bg_safetensors_entry), "const bg_safetensors_entry *entry"), ("offset_bytes", c_size_t, "size_t offset_bytes"), ("size_bytes", c_size_t, "size_t size_bytes"), ("out", c_void_p, "void *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_safetensors_write": (c_int, [("path", c_char_p, "const char *path"), ("entries", POINTER(bg_safetensors_entry), "const bg_safetensors_entry *entries"), ("entry_count", c_size_t, "size_t entry_count"), ("metadata", POINTER(bg_safetensors_metadata), "const bg_safetensors_metadata *metadata"), ("metadata_count", c_size_t, "size_t metadata_count"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_safetensors_write_fetched": (c_int, [("path", c_char_p, "const char *path"), ("entries", POINTER(bg_safetensors_entry), "const bg_safetensors_entry *entries"), ("entry_count", c_size_t, "size_t entry_count"), ("metadata", POINTER(bg_safetensors_metadata), "const bg_safetensors_metadata *metadata"), ("metadata_count", c_size_t, "size_t metadata_count"), ("fetch", bg_safetensors_fetch, "bg_safetensors_fetch fetch"), ("user", c_void_p, "void *user"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_sampling_init": (None, [("options", POINTER(bg_sampling), "bg_sampling *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_sampling_shares": (c_int, [("sampling", POINTER(bg_sampling), "const bg_sampling *sampling"), ("logits", POINTER(c_float), "const float *logits"), ("vocabulary", c_size_t, "size_t vocabulary"), ("tokens", POINTER(c_uint32), "const uint32_t *tokens"), ("token_count", c_size_t, "size_t token_count"), ("prompt_count", c_size_t, "size_t prompt_count"), ("out_shares", POINTER(c_double), "double *out_shares"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_scale": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("alpha", c_double, "double alpha"), ("beta", c_double, "double beta")], False),
    "bg_scan": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("options", POINTER(bg_scan_options), "const bg_scan_options *options"), ("inputs", POINTER(bg_value), "const bg_value *inputs"), ("states", POINTER(bg_value), "bg_value *states"), ("body", CFUNCTYPE(None, c_void_p, c_void_p, POINTER(bg_scan_step)), "void (*body)(void *user, bg_graph *graph, bg_scan_step *step)"), ("user", c_void_p, "void *user"), ("outputs", POINTER(bg_value), "bg_value *outputs")], False),
    "bg_scan_options_init": (None, [("options", POINTER(bg_scan_options), "bg_scan_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_scatter_add": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis"), ("ids", bg_value, "bg_value ids"), ("updates", bg_value, "bg_value updates")], False),
    "bg_scatter_elements_add": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis"), ("ids", bg_value, "bg_value ids"), ("updates", bg_value, "bg_value updates")], False),
    "bg_schedule_action_count": (c_uint32, [("schedule", c_void_p, "const bg_schedule *schedule"), ("device", c_uint32, "uint32_t device")], False),
    "bg_schedule_actions": (POINTER(bg_action), [("schedule", c_void_p, "const bg_schedule *schedule"), ("device", c_uint32, "uint32_t device")], False),
    "bg_schedule_alias_at": (c_char_p, [("index", c_uint32, "uint32_t index"), ("out_generator", POINTER(POINTER(bg_schedule_generator)), "const bg_schedule_generator **out_generator")], False),
    "bg_schedule_buffer_depth": (c_uint32, [("schedule", c_void_p, "const bg_schedule *schedule"), ("buffer", c_uint32, "uint32_t buffer")], False),
    "bg_schedule_create": (c_int, [("problem", POINTER(bg_schedule_problem), "const bg_schedule_problem *problem"), ("generator", POINTER(bg_schedule_generator), "const bg_schedule_generator *generator"), ("out", POINTER(c_void_p), "bg_schedule **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_default_devices": (c_uint32, [("generator", POINTER(bg_schedule_generator), "const bg_schedule_generator *generator"), ("stage_count", c_uint32, "uint32_t stage_count")], False),
    "bg_schedule_destroy": (None, [("schedule", c_void_p, "bg_schedule *schedule")], False),
    "bg_schedule_device_count": (c_uint32, [("schedule", c_void_p, "const bg_schedule *schedule")], False),
    "bg_schedule_draw_svg": (c_int, [("problem", POINTER(bg_schedule_problem), "const bg_schedule_problem *problem"), ("timing", POINTER(bg_schedule_timing), "const bg_schedule_timing *timing"), ("options", POINTER(bg_schedule_svg_options), "const bg_schedule_svg_options *options"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_edge_depth": (c_uint32, [("schedule", c_void_p, "const bg_schedule *schedule"), ("edge", c_uint32, "uint32_t edge")], False),
    "bg_schedule_emit": (c_int, [("schedule", c_void_p, "bg_schedule *schedule"), ("device", c_uint32, "uint32_t device"), ("action", bg_action, "bg_action action"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_generator_at": (POINTER(bg_schedule_generator), [("index", c_uint32, "uint32_t index")], False),
    "bg_schedule_generator_find": (POINTER(bg_schedule_generator), [("name", c_char_p, "const char *name")], False),
    "bg_schedule_parse": (c_int, [("text", c_char_p, "const char *text"), ("file_name", c_char_p, "const char *file_name"), ("out", POINTER(c_void_p), "bg_schedule **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_parse_csv": (c_int, [("text", c_char_p, "const char *text"), ("file_name", c_char_p, "const char *file_name"), ("out", POINTER(c_void_p), "bg_schedule **out"), ("out_skipped", POINTER(c_uint64), "uint64_t *out_skipped"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_place": (c_int, [("generator", POINTER(bg_schedule_generator), "const bg_schedule_generator *generator"), ("stage_count", c_uint32, "uint32_t stage_count"), ("device_count", c_uint32, "uint32_t device_count"), ("out_stage_devices", POINTER(c_uint32), "uint32_t *out_stage_devices"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_print": (c_int, [("schedule", c_void_p, "const bg_schedule *schedule"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_print_csv": (c_int, [("schedule", c_void_p, "const bg_schedule *schedule"), ("problem", POINTER(bg_schedule_problem), "const bg_schedule_problem *problem"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_problem_chain": (c_int, [("problem", POINTER(bg_schedule_problem), "bg_schedule_problem *problem"), ("edge_bytes", c_size_t, "size_t edge_bytes"), ("out_edges", POINTER(POINTER(bg_schedule_edge)), "bg_schedule_edge **out_edges"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_problem_free": (None, [("problem", POINTER(bg_schedule_problem), "bg_schedule_problem *problem")], False),
    "bg_schedule_problem_infer": (c_int, [("schedule", c_void_p, "const bg_schedule *schedule"), ("edge_bytes", c_size_t, "size_t edge_bytes"), ("out", POINTER(bg_schedule_problem), "bg_schedule_problem *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_problem_init": (None, [("problem", POINTER(bg_schedule_problem), "bg_schedule_problem *problem"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_schedule_simulate": (c_int, [("schedule", c_void_p, "const bg_schedule *schedule"), ("problem", POINTER(bg_schedule_problem), "const bg_schedule_problem *problem"), ("out", POINTER(bg_schedule_timing), "bg_schedule_timing *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_stage_in_flight": (c_uint32, [("schedule", c_void_p, "const bg_schedule *schedule"), ("stage", c_uint32, "uint32_t stage")], False),
    "bg_schedule_timetable": (c_int, [("schedule", c_void_p, "const bg_schedule *schedule"), ("problem", POINTER(bg_schedule_problem), "const bg_schedule_problem *problem"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_schedule_timing_clear": (None, [("timing", POINTER(bg_schedule_timing), "bg_schedule_timing *timing")], False),
    "bg_schedule_verify": (c_int, [("schedule", c_void_p, "bg_schedule *schedule"), ("problem", POINTER(bg_schedule_problem), "const bg_schedule_problem *problem"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_scope_begin": (None, [("graph", c_void_p, "bg_graph *graph"), ("format", c_char_p, "const char *format")], True),
    "bg_scope_end": (None, [("graph", c_void_p, "bg_graph *graph")], False),
    "bg_score_compute": (c_int, [("score", POINTER(bg_score), "const bg_score *score"), ("sums", POINTER(c_double), "const double *sums"), ("count", c_uint64, "uint64_t count"), ("out", POINTER(c_double), "double *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_serialized_embedding_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("ids", bg_value, "bg_value ids"), ("row_count", c_int64, "int64_t row_count"), ("width", c_int64, "int64_t width"), ("padding_index", c_int64, "int64_t padding_index"), ("dtype", c_int, "bg_dtype dtype"), ("factor", c_uint32, "uint32_t factor"), ("placement", POINTER(bg_split_placement), "const bg_split_placement *placement")], False),
    "bg_serialized_linear": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("weight", bg_value, "bg_value weight"), ("bias", bg_value, "bg_value bias"), ("mode", c_int, "bg_serialize_mode mode"), ("factor", c_uint32, "uint32_t factor")], False),
    "bg_serialized_linear_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("out_features", c_int64, "int64_t out_features"), ("bias", c_bool, "bool bias"), ("mode", c_int, "bg_serialize_mode mode"), ("factor", c_uint32, "uint32_t factor")], False),
    "bg_serialized_weight_cut": (c_int, [("plain", c_void_p, "const void *plain"), ("type", POINTER(bg_type), "const bg_type *type"), ("axis", c_uint32, "uint32_t axis"), ("factor", c_uint32, "uint32_t factor"), ("out_pieces", POINTER(c_void_p), "void *const *out_pieces"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_serialized_weight_join": (c_int, [("pieces", POINTER(c_void_p), "const void *const *pieces"), ("type", POINTER(bg_type), "const bg_type *type"), ("axis", c_uint32, "uint32_t axis"), ("factor", c_uint32, "uint32_t factor"), ("out_plain", c_void_p, "void *out_plain"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_ask_to_stop": (None, [("session", c_void_p, "bg_session *session")], False),
    "bg_session_check_input": (c_int, [("session", c_void_p, "const bg_session *session"), ("index", c_uint32, "uint32_t index"), ("type", POINTER(bg_type), "const bg_type *type"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_create": (c_int, [("plan", c_void_p, "const bg_plan *plan"), ("weights", c_void_p, "bg_weights *weights"), ("out", POINTER(c_void_p), "bg_session **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_create_inference": (c_int, [("graph", c_void_p, "const bg_graph *graph"), ("options", POINTER(bg_options), "const bg_options *options"), ("weights", c_void_p, "bg_weights *weights"), ("out", POINTER(c_void_p), "bg_session **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_create_reader": (c_int, [("plan", c_void_p, "const bg_plan *plan"), ("weights", c_void_p, "bg_weights *weights"), ("out", POINTER(c_void_p), "bg_session **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_create_training": (c_int, [("graph", c_void_p, "const bg_graph *graph"), ("loss", bg_value, "bg_value loss"), ("optimizer", POINTER(bg_optimizer), "const bg_optimizer *optimizer"), ("options", POINTER(bg_options), "const bg_options *options"), ("weights", c_void_p, "bg_weights *weights"), ("out", POINTER(c_void_p), "bg_session **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_cycles": (c_uint64, [("session", c_void_p, "const bg_session *session")], False),
    "bg_session_destroy": (None, [("session", c_void_p, "bg_session *session")], False),
    "bg_session_device_bytes": (c_size_t, [("session", c_void_p, "const bg_session *session"), ("replica", c_uint32, "uint32_t replica"), ("device", c_uint32, "uint32_t device")], False),
    "bg_session_execute": (c_int, [("session", c_void_p, "bg_session *session"), ("run", POINTER(bg_run), "const bg_run *run"), ("out_iterations", POINTER(c_uint64), "uint64_t *out_iterations"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_find_input": (c_uint32, [("session", c_void_p, "const bg_session *session"), ("name", c_char_p, "const char *name")], False),
    "bg_session_find_output": (c_uint32, [("session", c_void_p, "const bg_session *session"), ("name", c_char_p, "const char *name")], False),
    "bg_session_flush": (c_int, [("session", c_void_p, "bg_session *session"), ("note", c_char_p, "const char *note"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_has_device": (c_bool, [("session", c_void_p, "const bg_session *session"), ("replica", c_uint32, "uint32_t replica"), ("device", c_uint32, "uint32_t device")], False),
    "bg_session_input": (c_int, [("session", c_void_p, "const bg_session *session"), ("index", c_uint32, "uint32_t index"), ("out", POINTER(bg_stream), "bg_stream *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_input_count": (c_uint32, [("session", c_void_p, "const bg_session *session")], False),
    "bg_session_is_asked_to_stop": (c_bool, [("session", c_void_p, "const bg_session *session")], False),
    "bg_session_note": (c_char_p, [("session", c_void_p, "const bg_session *session")], False),
    "bg_session_output": (c_int, [("session", c_void_p, "const bg_session *session"), ("index", c_uint32, "uint32_t index"), ("out", POINTER(bg_stream), "bg_stream *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_output_count": (c_uint32, [("session", c_void_p, "const bg_session *session")], False),
    "bg_session_plan": (c_void_p, [("session", c_void_p, "const bg_session *session")], False),
    "bg_session_print_workers": (c_int, [("session", c_void_p, "const bg_session *session"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_read_weights": (c_int, [("session", c_void_p, "bg_session *session"), ("rank", c_uint32, "uint32_t rank"), ("use", CFUNCTYPE(c_int, c_void_p, POINTER(bg_error)), "bg_status (*use)(void *user, bg_error *error)"), ("user", c_void_p, "void *user"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_reads": (c_bool, [("session", c_void_p, "const bg_session *session"), ("input", c_uint32, "uint32_t input"), ("index", c_uint64, "uint64_t index")], False),
    "bg_session_run": (c_int, [("session", c_void_p, "bg_session *session"), ("inputs", POINTER(c_void_p), "const void *const *inputs"), ("outputs", POINTER(c_void_p), "void *const *outputs"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_run_infeed": (c_int, [("session", c_void_p, "bg_session *session"), ("infeed", c_void_p, "bg_infeed *infeed"), ("outputs", POINTER(c_void_p), "void *const *outputs"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_run_kept": (c_int, [("session", c_void_p, "bg_session *session"), ("key", c_void_p, "const void *key"), ("number", c_uint64, "uint64_t number"), ("open", CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(bg_error)), "bg_status (*open)(void *user, bg_infeed **out, bg_error *error)"), ("user", c_void_p, "void *user"), ("outputs", POINTER(c_void_p), "void *const *outputs"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_run_loader": (c_int, [("session", c_void_p, "bg_session *session"), ("loader", c_void_p, "bg_loader *loader"), ("epoch", c_uint64, "uint64_t epoch"), ("outputs", POINTER(c_void_p), "void *const *outputs"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_set_learning_rate": (c_int, [("session", c_void_p, "bg_session *session"), ("learning_rate", c_double, "double learning_rate"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_set_optimizer": (c_int, [("session", c_void_p, "bg_session *session"), ("optimizer", POINTER(bg_optimizer), "const bg_optimizer *optimizer"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_set_step": (c_int, [("session", c_void_p, "bg_session *session"), ("step", c_uint64, "uint64_t step"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_share_trace": (c_int, [("session", c_void_p, "bg_session *session"), ("rank", c_uint32, "uint32_t rank"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_step": (c_uint64, [("session", c_void_p, "const bg_session *session")], False),
    "bg_session_stop": (None, [("session", c_void_p, "bg_session *session")], False),
    "bg_session_trace_count": (c_uint32, [("session", c_void_p, "const bg_session *session"), ("replica", c_uint32, "uint32_t replica"), ("device", c_uint32, "uint32_t device")], False),
    "bg_session_trace_event": (c_int, [("session", c_void_p, "const bg_session *session"), ("replica", c_uint32, "uint32_t replica"), ("device", c_uint32, "uint32_t device"), ("index", c_uint32, "uint32_t index"), ("out", POINTER(bg_trace_event), "bg_trace_event *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_session_version": (c_uint64, [("session", c_void_p, "const bg_session *session")], False),
    "bg_session_weights": (c_void_p, [("session", c_void_p, "const bg_session *session")], False),
    "bg_shard_cut": (c_int, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh"), ("shard", POINTER(bg_shard), "const bg_shard *shard"), ("coordinates", POINTER(bg_mesh), "const bg_mesh *coordinates"), ("whole", c_void_p, "const void *whole"), ("out_piece", c_void_p, "void *out_piece"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_shard_join": (c_int, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh"), ("shard", POINTER(bg_shard), "const bg_shard *shard"), ("coordinates", POINTER(bg_mesh), "const bg_mesh *coordinates"), ("piece", c_void_p, "const void *piece"), ("out_whole", c_void_p, "void *out_whole"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_shard_piece": (c_int, [("mesh", POINTER(bg_mesh), "const bg_mesh *mesh"), ("shard", POINTER(bg_shard), "const bg_shard *shard"), ("out", POINTER(bg_type), "bg_type *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_sharded_cross_entropy": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("logits", bg_value, "bg_value logits"), ("labels", bg_value, "bg_value labels"), ("classes", c_int64, "int64_t classes"), ("reduction", c_int, "bg_loss_reduction reduction"), ("ignore_index", c_int64, "int64_t ignore_index"), ("axis", c_int, "bg_mesh_axis axis")], False),
    "bg_sharded_dropout": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("probability", c_double, "double probability"), ("axis", c_int, "bg_mesh_axis axis")], False),
    "bg_sharded_embedding": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("table", bg_value, "bg_value table"), ("ids", bg_value, "bg_value ids"), ("axis", c_int, "bg_mesh_axis axis")], False),
    "bg_sharded_layer_norm": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("gamma", bg_value, "bg_value gamma"), ("beta", bg_value, "bg_value beta"), ("epsilon", c_double, "double epsilon"), ("axis", c_int, "bg_mesh_axis axis")], False),
    "bg_sigmoid": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("x", bg_value, "bg_value x")], False),
    "bg_silu": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("x", bg_value, "bg_value x")], False),
    "bg_slice": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis"), ("start", c_int64, "int64_t start"), ("stop", c_int64, "int64_t stop"), ("step", c_int64, "int64_t step")], False),
    "bg_softmax": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("axis", c_int32, "int32_t axis")], False),
    "bg_split_block_name": (c_bool, [("placement", POINTER(bg_split_placement), "const bg_split_placement *placement"), ("kind", c_char_p, "const char *kind"), ("device", c_uint32, "uint32_t device"), ("out_name", c_char_p, "char out_name[BG_SPLIT_BLOCK_BYTES]")], False),
    "bg_split_projection_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("out_features", c_int64, "int64_t out_features"), ("bias", c_bool, "bool bias"), ("mode", c_int, "bg_serialize_mode mode"), ("factor", c_uint32, "uint32_t factor"), ("placement", POINTER(bg_split_placement), "const bg_split_placement *placement")], False),
    "bg_stack": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("values", POINTER(bg_value), "const bg_value *values"), ("count", c_uint32, "uint32_t count"), ("axis", c_int32, "int32_t axis")], False),
    "bg_standardize": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("dtype", c_int, "bg_dtype dtype"), ("divisor", c_float, "float divisor"), ("mean", c_float, "float mean"), ("deviation", c_float, "float deviation")], False),
    "bg_status_name": (c_char_p, [("status", c_int, "bg_status status")], False),
    "bg_stop_gradient": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x")], False),
    "bg_stream_shape": (c_int, [("stream", POINTER(bg_stream), "const bg_stream *stream"), ("form", c_int, "bg_stream_form form"), ("out", POINTER(bg_type), "bg_type *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_struct_bytes": (c_size_t, [("name", c_char_p, "const char *name")], False),
    "bg_subtract": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("a", bg_value, "bg_value a"), ("b", bg_value, "bg_value b")], False),
    "bg_sync_batch_norm": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("gamma", bg_value, "bg_value gamma"), ("beta", bg_value, "bg_value beta"), ("running_mean", bg_value, "bg_value running_mean"), ("running_variance", bg_value, "bg_value running_variance"), ("momentum", c_double, "double momentum"), ("epsilon", c_double, "double epsilon")], False),
    "bg_sync_batch_norm_layer": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("momentum", c_double, "double momentum"), ("epsilon", c_double, "double epsilon")], False),
    "bg_tanh": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("x", bg_value, "bg_value x")], False),
    "bg_tile": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("times", POINTER(c_int64), "const int64_t *times")], False),
    "bg_token_list_clear": (None, [("list", POINTER(bg_token_list), "bg_token_list *list")], False),
    "bg_tokenizer_create_bytes": (c_int, [("out", POINTER(c_void_p), "bg_tokenizer **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_tokenizer_decode": (c_int, [("tokenizer", c_void_p, "const bg_tokenizer *tokenizer"), ("tokens", POINTER(c_uint32), "const uint32_t *tokens"), ("count", c_size_t, "size_t count"), ("out_text", POINTER(c_char_p), "char **out_text"), ("out_size_bytes", POINTER(c_size_t), "size_t *out_size_bytes"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_tokenizer_destroy": (None, [("tokenizer", c_void_p, "bg_tokenizer *tokenizer")], False),
    "bg_tokenizer_encode": (c_int, [("tokenizer", c_void_p, "const bg_tokenizer *tokenizer"), ("text", c_void_p, "const void *text"), ("size_bytes", c_size_t, "size_t size_bytes"), ("reads_special", c_bool, "bool reads_special"), ("tokens", POINTER(bg_token_list), "bg_token_list *tokens"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_tokenizer_end_of_text": (c_uint32, [("tokenizer", c_void_p, "const bg_tokenizer *tokenizer")], False),
    "bg_tokenizer_open": (c_int, [("directory", c_char_p, "const char *directory"), ("out", POINTER(c_void_p), "bg_tokenizer **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_tokenizer_token": (c_char_p, [("tokenizer", c_void_p, "const bg_tokenizer *tokenizer"), ("token", c_uint32, "uint32_t token"), ("out_size_bytes", POINTER(c_size_t), "size_t *out_size_bytes")], False),
    "bg_tokenizer_vocabulary": (c_uint32, [("tokenizer", c_void_p, "const bg_tokenizer *tokenizer")], False),
    "bg_top_k": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("k", c_int64, "int64_t k"), ("smallest", c_bool, "bool smallest"), ("out_numbers", POINTER(bg_value), "bg_value *out_numbers")], False),
    "bg_top_k_correct_count": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("logits", bg_value, "bg_value logits"), ("labels", bg_value, "bg_value labels"), ("k", c_int64, "int64_t k")], False),
    "bg_topology_order": (c_uint32, [("user", c_void_p, "void *user"), ("pinning", c_int, "bg_pinning pinning"), ("cpus", POINTER(c_uint32), "uint32_t *cpus"), ("cpu_count", c_uint32, "uint32_t cpu_count")], False),
    "bg_trainer_call_output": (c_void_p, [("call", POINTER(bg_trainer_call), "const bg_trainer_call *call"), ("name", c_char_p, "const char *name"), ("out_stream", POINTER(bg_stream), "bg_stream *out_stream")], False),
    "bg_trainer_call_valid": (c_uint64, [("call", POINTER(bg_trainer_call), "const bg_trainer_call *call"), ("index", c_uint64, "uint64_t index")], False),
    "bg_trainer_create": (c_int, [("options", POINTER(bg_trainer_options), "const bg_trainer_options *options"), ("weights", c_void_p, "bg_weights *weights"), ("out", POINTER(c_void_p), "bg_trainer **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_trainer_destroy": (None, [("trainer", c_void_p, "bg_trainer *trainer")], False),
    "bg_trainer_epoch": (c_uint64, [("trainer", c_void_p, "const bg_trainer *trainer")], False),
    "bg_trainer_event_name": (c_char_p, [("kind", c_int, "bg_trainer_event_kind kind")], False),
    "bg_trainer_fit": (c_int, [("trainer", c_void_p, "bg_trainer *trainer"), ("training", POINTER(bg_trainer_data), "const bg_trainer_data *training"), ("validation", POINTER(bg_trainer_data), "const bg_trainer_data *validation"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_trainer_metric_at": (c_int, [("trainer", c_void_p, "const bg_trainer *trainer"), ("task", c_int, "bg_trainer_task task"), ("index", c_uint32, "uint32_t index"), ("out", POINTER(bg_trainer_metric), "bg_trainer_metric *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_trainer_metric_count": (c_uint32, [("trainer", c_void_p, "const bg_trainer *trainer"), ("task", c_int, "bg_trainer_task task")], False),
    "bg_trainer_metric_find": (c_int, [("trainer", c_void_p, "const bg_trainer *trainer"), ("task", c_int, "bg_trainer_task task"), ("name", c_char_p, "const char *name"), ("out", POINTER(bg_trainer_metric), "bg_trainer_metric *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_trainer_options_init": (None, [("options", POINTER(bg_trainer_options), "bg_trainer_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_trainer_predict": (c_int, [("trainer", c_void_p, "bg_trainer *trainer"), ("data", POINTER(bg_trainer_data), "const bg_trainer_data *data"), ("arrays", POINTER(bg_array), "bg_array *arrays"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_trainer_prepare": (c_int, [("trainer", c_void_p, "bg_trainer *trainer"), ("task", c_int, "bg_trainer_task task"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_trainer_rest_session": (c_void_p, [("trainer", c_void_p, "const bg_trainer *trainer"), ("task", c_int, "bg_trainer_task task")], False),
    "bg_trainer_resume": (None, [("trainer", c_void_p, "bg_trainer *trainer"), ("epoch", c_uint64, "uint64_t epoch"), ("batch", c_uint64, "uint64_t batch"), ("step", c_uint64, "uint64_t step")], False),
    "bg_trainer_samples_per_call": (c_uint64, [("trainer", c_void_p, "const bg_trainer *trainer"), ("task", c_int, "bg_trainer_task task")], False),
    "bg_trainer_session": (c_void_p, [("trainer", c_void_p, "const bg_trainer *trainer"), ("task", c_int, "bg_trainer_task task")], False),
    "bg_trainer_set_optimizer": (c_int, [("trainer", c_void_p, "bg_trainer *trainer"), ("optimizer", POINTER(bg_optimizer), "const bg_optimizer *optimizer"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_trainer_step": (c_uint64, [("trainer", c_void_p, "const bg_trainer *trainer")], False),
    "bg_trainer_stop": (None, [("trainer", c_void_p, "bg_trainer *trainer")], False),
    "bg_trainer_task_name": (c_char_p, [("task", c_int, "bg_trainer_task task")], False),
    "bg_trainer_test": (c_int, [("trainer", c_void_p, "bg_trainer *trainer"), ("data", POINTER(bg_trainer_data), "const bg_trainer_data *data"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_trainer_validate": (c_int, [("trainer", c_void_p, "bg_trainer *trainer"), ("data", POINTER(bg_trainer_data), "const bg_trainer_data *data"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_trainer_was_stopped": (c_bool, [("trainer", c_void_p, "const bg_trainer *trainer")], False),
    "bg_trainer_weights": (c_void_p, [("trainer", c_void_p, "const bg_trainer *trainer")], False),
    "bg_transpose": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("permutation", POINTER(c_uint32), "const uint32_t *permutation")], False),
    "bg_triangle": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("x", bg_value, "bg_value x"), ("upper", c_bool, "bool upper"), ("diagonal", c_int64, "int64_t diagonal")], False),
    "bg_type_element_count": (c_int64, [("type", POINTER(bg_type), "const bg_type *type")], False),
    "bg_type_equal": (c_bool, [("a", POINTER(bg_type), "const bg_type *a"), ("b", POINTER(bg_type), "const bg_type *b")], False),
    "bg_type_size_bytes": (c_size_t, [("type", POINTER(bg_type), "const bg_type *type")], False),
    "bg_type_text": (c_char_p, [("type", POINTER(bg_type), "const bg_type *type"), ("text", c_char_p, "char *text")], False),
    "bg_type_validate": (c_int, [("type", POINTER(bg_type), "const bg_type *type"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_version": (c_char_p, [], False),
    "bg_watch_event": (c_int, [("watch", c_void_p, "void *watch"), ("event", POINTER(bg_trainer_event), "bg_trainer_event *event"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_watch_init": (None, [("watch", POINTER(bg_watch), "bg_watch *watch"), ("struct_bytes", c_size_t, "size_t struct_bytes"), ("metric", c_char_p, "const char *metric")], False),
    "bg_weighted_cross_entropy": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("logits", bg_value, "bg_value logits"), ("labels", bg_value, "bg_value labels"), ("class_weights", bg_value, "bg_value class_weights"), ("label_smoothing", c_double, "double label_smoothing"), ("reduction", c_int, "bg_loss_reduction reduction"), ("ignore_index", c_int64, "int64_t ignore_index")], False),
    "bg_weights_at": (c_int, [("weights", c_void_p, "bg_weights *weights"), ("index", c_uint32, "uint32_t index"), ("out", POINTER(bg_weight), "bg_weight *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_weights_count": (c_uint32, [("weights", c_void_p, "const bg_weights *weights")], False),
    "bg_weights_create": (c_int, [("out", POINTER(c_void_p), "bg_weights **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_weights_create_in": (c_int, [("allocator", POINTER(bg_allocator), "const bg_allocator *allocator"), ("out", POINTER(c_void_p), "bg_weights **out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_weights_destroy": (None, [("weights", c_void_p, "bg_weights *weights")], False),
    "bg_weights_fill": (c_int, [("weights", c_void_p, "bg_weights *weights"), ("name", c_char_p, "const char *name"), ("type", POINTER(bg_type), "const bg_type *type"), ("write", CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(bg_error)), "bg_status (*write)(void *user, void *data, bg_error *error)"), ("user", c_void_p, "void *user"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_weights_find": (c_int, [("weights", c_void_p, "bg_weights *weights"), ("name", c_char_p, "const char *name"), ("out", POINTER(bg_weight), "bg_weight *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_weights_load": (c_int, [("weights", c_void_p, "bg_weights *weights"), ("path", c_char_p, "const char *path"), ("options", POINTER(bg_weights_load_options), "const bg_weights_load_options *options"), ("out_report", POINTER(bg_weights_report), "bg_weights_report *out_report"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_weights_load_options_init": (None, [("options", POINTER(bg_weights_load_options), "bg_weights_load_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_weights_outcome_name": (c_char_p, [("outcome", c_int, "bg_weights_outcome outcome")], False),
    "bg_weights_publish": (c_int, [("weights", c_void_p, "bg_weights *weights"), ("out_version", POINTER(c_uint64), "uint64_t *out_version"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_weights_quantized": (c_int, [("weights", c_void_p, "bg_weights *weights"), ("out", POINTER(bg_quantized), "bg_quantized *out"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_weights_report_clear": (None, [("report", POINTER(bg_weights_report), "bg_weights_report *report")], False),
    "bg_weights_report_print": (c_int, [("report", POINTER(bg_weights_report), "const bg_weights_report *report"), ("out_text", POINTER(c_char_p), "char **out_text"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_weights_save": (c_int, [("weights", c_void_p, "bg_weights *weights"), ("path", c_char_p, "const char *path"), ("options", POINTER(bg_weights_save_options), "const bg_weights_save_options *options"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_weights_save_options_init": (None, [("options", POINTER(bg_weights_save_options), "bg_weights_save_options *options"), ("struct_bytes", c_size_t, "size_t struct_bytes")], False),
    "bg_weights_set": (c_int, [("weights", c_void_p, "bg_weights *weights"), ("name", c_char_p, "const char *name"), ("type", POINTER(bg_type), "const bg_type *type"), ("data", c_void_p, "const void *data"), ("error", POINTER(bg_error), "bg_error *error")], False),
    "bg_where": (bg_value, [("graph", c_void_p, "bg_graph *graph"), ("name", c_char_p, "const char *name"), ("condition", bg_value, "bg_value condition"), ("a", bg_value, "bg_value a"), ("b", bg_value, "bg_value b")], False),
}

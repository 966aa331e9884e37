/*
 * config.h: the IPUConfig of Optimum Graphcore (`ipu_config.json`, also as YAML), and options by name from files and
 * from the environment. Both the IPUConfig and the options by name become the bg_options of options.h.
 *
 * Threads: one thread at a time while the object is created or changed; after that any number of threads may read it.
 *
 * Errors: BG_ERROR_INVALID for a value that is out of range or contradicts another, BG_ERROR_PARSE, BG_ERROR_NOT_FOUND,
 * BG_ERROR_IO, BG_ERROR_MEMORY.
 *
 * Shapes: those of the corresponding layer in nn.h.
 */
#ifndef BRIGADE_CONFIG_H
#define BRIGADE_CONFIG_H

#include <brigade/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the IPU configuration ---- */

/*
 * Holds every field of Optimum's IPUConfig, under the same name; docs/configuration.md lists them. A field that may
 * differ between training and inference has a second form, named `inference_` plus the field's name. Fields that are
 * not given are inferred from the given ones, and inferred again after each change. A change that would make the
 * configuration wrong is refused and changes nothing; the error lists every problem of the changed configuration.
 * Returned strings and lists are valid until the next change. Several threads may read the object at once; while one
 * thread changes it, no other thread may use it.
 */
typedef struct bg_ipu_config bg_ipu_config;

typedef enum bg_config_kind {
    BG_CONFIG_NULL = 0,
    BG_CONFIG_BOOL,
    BG_CONFIG_INTEGER,
    BG_CONFIG_REAL,
    BG_CONFIG_TEXT,
    BG_CONFIG_INTEGERS,
    BG_CONFIG_REALS,
    BG_CONFIG_MAP
} bg_config_kind;

typedef struct bg_config_value {
    bg_config_kind kind;
    bool boolean;
    int64_t integer;
    double real;      /* REAL; INTEGER: the same number */
    const char *text; /* TEXT; MAP: a JSON object */
    const int64_t *integers;
    const double *reals; /* REALS; INTEGERS: the same numbers */
    size_t count;        /* of the list */
} bg_config_value;

/* Creates a configuration with all defaults, in training mode. */
BG_API bg_status bg_ipu_config_create(bg_ipu_config **out, bg_error *error);
BG_API bg_status bg_ipu_config_clone(const bg_ipu_config *config, bg_ipu_config **out, bg_error *error);
BG_API void bg_ipu_config_destroy(bg_ipu_config *config);

/* Sets the mode, "training" or "inference": the form that an unprefixed field name refers to in get and set. */
BG_API bg_status bg_ipu_config_set_mode(bg_ipu_config *config, const char *mode, bg_error *error);
BG_API const char *bg_ipu_config_mode(const bg_ipu_config *config);

/* Return the name and the description of field `index`, in the order of the names; NULL past the end. */
BG_API const char *bg_ipu_config_field_at(size_t index);
BG_API const char *bg_ipu_config_field_help(size_t index);

/* Returns the current value of a field: given, inferred or the default. Errors: BG_ERROR_NOT_FOUND (naming the nearest
 * field). */
BG_API bg_status bg_ipu_config_get(const bg_ipu_config *config, const char *name, bg_config_value *out,
                                   bg_error *error);
/* Sets a field; a NULL value removes the given one. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_INVALID, BG_ERROR_MEMORY. */
BG_API bg_status bg_ipu_config_set(bg_ipu_config *config, const char *name, const bg_config_value *value,
                                   bg_error *error);

/*
 * Sets fields from a string "key=value,key=value". Truth values are true/1/y/yes or false/0/n/no, and lists are [1 2 3]
 * or [1, 2, 3]. The words null and none remove the given value of a field that accepts null or an empty string
 * (executable_cache_dir). For other fields these words are an error that names the field. Whitespace around keys and
 * values is ignored. On failure no change is made. Keys are the fields' full names in every mode.
 */
BG_API bg_status bg_ipu_config_update_from_string(bg_ipu_config *config, const char *text, bg_error *error);

/* Returns replicas x accumulation x iterations, the number of micro-batches of a call. */
BG_API uint64_t bg_ipu_config_batch_size_factor(const bg_ipu_config *config, bool for_inference);
/* Whether all fields have equal current values; other keys of files are not compared. */
BG_API bool bg_ipu_config_equal(const bg_ipu_config *a, const bg_ipu_config *b);
/* Prints the current values of all fields, one on each line, in the order of their names. malloc'ed. */
BG_API bg_status bg_ipu_config_print(const bg_ipu_config *config, char **out_text, bg_error *error);
/* Prints warnings, one on each line: unknown keys of the file, old names, settings without an effect. malloc'ed; "" if
 * there are no warnings. */
BG_API bg_status bg_ipu_config_print_notes(const bg_ipu_config *config, char **out_text, bg_error *error);

/* ---- files ---- */

#define BG_IPU_CONFIG_FILE "ipu_config.json"

typedef struct bg_ipu_config_load_options {
    size_t struct_bytes;   /* 0, or sizeof(bg_ipu_config_load_options): see base.h */
    bool keep_unknown;     /* keep and note an unknown key instead of refusing it */
    const char *overrides; /* an update string, applied to the file's values before they are checked; NULL: no update */
} bg_ipu_config_load_options;

/*
 * Reads a configuration from a file, or from ipu_config.json in a folder; a name that ends in .yaml or .yml is read as
 * YAML. Keys that only record versions are kept; old names are accepted with a note. Errors: BG_ERROR_NOT_FOUND,
 * BG_ERROR_IO, BG_ERROR_PARSE (with line and column), BG_ERROR_INVALID (every problem, with its position),
 * BG_ERROR_MEMORY. options NULL: the defaults.
 */
BG_API bg_status bg_ipu_config_load(const char *path, const bg_ipu_config_load_options *options, bg_ipu_config **out,
                                    bg_error *error);
/* Reads a configuration from a string; error messages call the string `name`. */
BG_API bg_status bg_ipu_config_parse_json(const char *text, const char *name, const bg_ipu_config_load_options *options,
                                          bg_ipu_config **out, bg_error *error);
BG_API bg_status bg_ipu_config_parse_yaml(const char *text, const char *name, const bg_ipu_config_load_options *options,
                                          bg_ipu_config **out, bg_error *error);

/* Sets whether the strings and files below contain the version of Brigade as `brigade_version`, a key that Optimum does
 * not know. The default is true for a configuration that was created here; for a loaded one it is true if its file
 * contains the key. */
BG_API void bg_ipu_config_set_version_written(bg_ipu_config *config, bool is_written);
/* Writes ipu_config.json into a folder, which is created if it is missing. A path to a regular file is an error. */
BG_API bg_status bg_ipu_config_save(const bg_ipu_config *config, const char *folder, bg_error *error);
/*
 * Prints a configuration as the text of ipu_config.json. For a configuration that was created here the text has every
 * field, with null for inferred values, so that they are inferred again when the text is read back. For a loaded
 * configuration it has the keys of the file and those that were set since. Loading and saving a file that Optimum wrote
 * gives the same bytes. malloc'ed.
 */
BG_API bg_status bg_ipu_config_print_json(const bg_ipu_config *config, char **out_text, bg_error *error);
BG_API bg_status bg_ipu_config_print_yaml(const bg_ipu_config *config, char **out_text, bg_error *error);

/* ---- layers on devices ---- */

/*
 * Computes how many of `layer_count` layers each of `device_count` devices gets: [1, 2, -1, -1] for 12 layers on 4
 * devices gives [1, 2, 4, 5]. Wildcards (-1) share the remaining layers, and the last wildcard gets the remainder. The
 * list [-1] means an even split over all devices. A single device gets all layers. `out` has device_count elements.
 * Errors: BG_ERROR_INVALID.
 */
BG_API bg_status bg_layers_expand(const int64_t *layers, size_t count, uint32_t device_count, uint64_t layer_count,
                                  int64_t *out, bg_error *error);

/* Places the layers of an encoder on the first devices and those of a decoder on the others, so that they share no
 * device. If several borders are possible, the function chooses the last one where the encoder's number of devices is a
 * power of two. Fields of the current mode are divided; the others are copied. Needs at least two devices. */
BG_API bg_status bg_ipu_config_split_encoder_decoder(const bg_ipu_config *config, uint64_t encoder_layers,
                                                     uint64_t decoder_layers, bg_ipu_config **out_encoder,
                                                     bg_ipu_config **out_decoder, bg_error *error);

/* ---- to runtime options ---- */

/* Properties of the model that a configuration needs. All-zero is valid and means that no property is known. */
typedef struct bg_ipu_model {
    size_t struct_bytes;             /* 0, or sizeof(bg_ipu_model): see base.h */
    uint64_t layer_count;            /* layers of encoder and decoder together; 0: unknown */
    const char *const *layer_blocks; /* the graph's block of each layer; NULL: "Layer-0", "Layer-1", ... */
    const char *embedding_block;     /* block before the layers, on device 0; NULL: no such block */
    const char *head_block;          /* block after the layers, on the last device; NULL: no such block */
    bool head_is_tied;               /* the head uses the embedding's weights, so it is on device 0 with it */
} bg_ipu_model;

/* Options together with the memory to which they point. `notes` has one line for each setting of the configuration that
 * the options cannot express. All-zero is valid and empty. */
typedef struct bg_ipu_options {
    bg_options options;
    char *stages, *cache_dir;
    double *matmul_proportions;
    char *notes; /* "": no notes */
} bg_ipu_options;

/*
 * Makes options from a configuration. Training is pipelined, with means over accumulation and replicas. Inference is
 * sharded, with all outputs and without accumulation. When the model's layers are known, layers_per_ipu decides the
 * stages. Devices without layers are left out. If data return to an earlier device, as for a tied head, the schedule is
 * "grouped". When the layers are not known, auto_increment makes the stages from the graph's blocks. `compile_only` is
 * copied to bg_options. Errors: BG_ERROR_INVALID (layers and devices do not fit), BG_ERROR_UNSUPPORTED
 * (execute_encoder_on_cpu_for_generation).
 */
BG_API bg_status bg_ipu_config_to_options(const bg_ipu_config *config, bool for_inference, bool compile_only,
                                          const bg_ipu_model *model, bg_ipu_options *out, bg_error *error);
BG_API void bg_ipu_options_clear(bg_ipu_options *options);

/*
 * Adds the embedding or the output layer in the configured form: as one layer, in pieces that run in turn, or in splits
 * on several devices. Splits are in separate blocks (bg_split_placement), which the stages of bg_ipu_config_to_options
 * use instead of embedding_block and head_block. Ops that follow the pieces belong to the last piece's block; the loss
 * belongs to the last block of the projection. Call the functions outside scopes (bg_block_begin). The graph records
 * errors, and bg_graph_check returns them.
 */
BG_API bg_value bg_ipu_embedding_layer(bg_graph *graph, const bg_ipu_config *config, bool for_inference,
                                       const char *name, bg_value ids, int64_t row_count, int64_t width,
                                       int64_t padding_index, bg_dtype dtype);
BG_API bg_value bg_ipu_projection_layer(bg_graph *graph, const bg_ipu_config *config, bool for_inference,
                                        const char *name, bg_value x, int64_t out_features, bool bias);

/* ---- options by name ---- */

/* Sets an option by its name in bg_options (or by PopTorch's: deviceIterations, outputMode "OutputMode.All") from text.
 * `stages` and `cache_dir` are borrowed: the text must live as long as the options. Lists and callbacks can only be set
 * in C. Errors: BG_ERROR_NOT_FOUND (naming the nearest option), BG_ERROR_INVALID (with what would be right). */
BG_API bg_status bg_options_set(bg_options *options, const char *name, const char *text, bg_error *error);
/* Prints all named options, one on each line, and then, as comments, anchors, location rules and device models.
 * malloc'ed. */
BG_API bg_status bg_options_print(const bg_options *options, char **out_text, bg_error *error);

/* ---- options that own their strings and lists ---- */

typedef struct bg_run_options bg_run_options;

/* Creates a deep copy of `from` (NULL: the defaults), except that callbacks are copied as pointers. */
BG_API bg_status bg_run_options_create(const bg_options *from, bg_run_options **out, bg_error *error);
BG_API void bg_run_options_destroy(bg_run_options *options);
/* Creates a deep copy, which is not frozen. */
BG_API bg_status bg_run_options_clone(const bg_run_options *options, bg_run_options **out, bg_error *error);
/* Returns the options, to read them or to pass them to a plan or a trainer. bg_run_options_use also freezes the object:
 * setting an option afterward is an error. Borrowed. */
BG_API const bg_options *bg_run_options_view(const bg_run_options *options);
BG_API const bg_options *bg_run_options_use(bg_run_options *options);
/* Sets an option as bg_options_set does, but copies strings and allows lists: device_mapping "0,1,1,0". Errors: also
 * BG_ERROR_INVALID if the object is frozen. */
BG_API bg_status bg_run_options_set(bg_run_options *options, const char *name, const char *text, bg_error *error);
/* Sets an option to a value of the option's kind: numbers for numbers, strings for strings and names ("every_n"), lists
 * for lists; BG_CONFIG_NULL sets the default. Errors: also BG_ERROR_INVALID for a value of another kind. */
BG_API bg_status bg_run_options_set_value(bg_run_options *options, const char *name, const bg_config_value *value,
                                          bg_error *error);
BG_API bg_status bg_run_options_set_integer(bg_run_options *options, const char *name, int64_t value, bg_error *error);
BG_API bg_status bg_run_options_set_text(bg_run_options *options, const char *name, const char *value, bg_error *error);
/* Sets options.execution.transport, for bindings that cannot set the struct's field. The transport connects the
 * processes that share the devices (brigade/transport.h); NULL: this process has all devices. The caller still owns the
 * transport. Errors: BG_ERROR_INVALID if the object is frozen. */
BG_API bg_status bg_run_options_set_transport(bg_run_options *options, const struct bg_transport *transport,
                                              bg_error *error);
/* Adds an anchor, like PopTorch's anchorTensor (bg_output_request). A run then also returns `output`, an output of the
 * graph or the result of an op, as `name` (NULL: the same name) in the given mode. `period` is for BG_OUTPUT_EVERY_N.
 * Errors: BG_ERROR_INVALID if the object is frozen, `output` is empty, the mode is unknown, or the name is already
 * used; BG_ERROR_MEMORY. */
BG_API bg_status bg_run_options_add_anchor(bg_run_options *options, const char *output, const char *name,
                                           bg_output_mode mode, uint32_t period, bg_error *error);
/* Returns the current value of an option; strings and lists live as long as `options`. A seed of 2^63 or more is
 * returned as a string. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_MEMORY. */
BG_API bg_status bg_run_options_get(bg_run_options *options, const char *name, bg_config_value *out, bg_error *error);
/*
 * Sets several options at once, or none of them on failure; the error names every problem with its position
 * ("file:line: ..."). A string that begins with { is JSON: {"deviceIterations": 7, "outputMode": ["OutputMode.EveryN",
 * 2]}. Otherwise each line has one option as "name value", "name=value" or "name(value)", and # begins a comment. Error
 * messages call the text `name`. Later settings override earlier ones. Errors: BG_ERROR_INVALID, BG_ERROR_PARSE,
 * BG_ERROR_MEMORY; for files also BG_ERROR_NOT_FOUND and BG_ERROR_IO.
 */
BG_API bg_status bg_run_options_parse(bg_run_options *options, const char *text, const char *name, bg_error *error);
BG_API bg_status bg_run_options_load(bg_run_options *options, const char *path, bg_error *error);
/* Sets options from this environment variable, if it is set. The variable holds JSON, or settings "name=value
 * name=value". */
#define BG_OPTIONS_VARIABLE "BRIGADE_OPTIONS"
BG_API bg_status bg_run_options_read_environment(bg_run_options *options, bg_error *error);
/* Whether one of the functions above set the option. */
BG_API bool bg_run_options_is_given(const bg_run_options *options, const char *name);
/* Copies the options that were set into `to`, which then points into `options`, and freezes `options`. */
BG_API void bg_run_options_apply(bg_run_options *options, bg_options *to);
/* Prints the options as JSON that bg_run_options_parse reads; bg_options_print prints lines. malloc'ed. */
BG_API bg_status bg_run_options_print_json(const bg_run_options *options, char **out_text, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif

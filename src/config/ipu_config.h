/*
 * ipu_config.h: declares what the files of the IPU configuration share: the table of fields, the object, and the pass
 * that computes settled values from given ones.
 *
 *     given (by files, updates and callers)  --settle: types, ranges, inference, cross checks-->  values (settled)
 *
 * A change is made in a copy and settled, and replaces the original only if there are no problems.
 */
#ifndef BGI_CONFIG_IPU_CONFIG_H
#define BGI_CONFIG_IPU_CONFIG_H

#include <jansson.h>

#include <brigade/config.h>

#include "config/document.h"
#include "config/problems.h"

/* Kinds of value that a field accepts. */
enum {
    BGI_NULL = 1,
    BGI_BOOL = 2,
    BGI_INTEGER = 4,
    BGI_REAL = 8, /* whole numbers too */
    BGI_TEXT = 16,
    BGI_INTEGERS = 32,
    BGI_REALS = 64,
    BGI_MAP = 128
};

typedef enum bgi_ipu_field_id {
#define BGI_FIELD(id, name, kinds, fallback, least, most, help)          BGI_IPU_##id,
#define BGI_MANAGED(id, name, kinds, fallback, other, least, most, help) BGI_IPU_##id, BGI_IPU_INFERENCE_##id,
#include "config/ipu_fields.def"
#undef BGI_FIELD
#undef BGI_MANAGED
    BGI_IPU_FIELD_COUNT
} bgi_ipu_field_id;

typedef struct bgi_ipu_field {
    const char *name;
    unsigned kinds;
    const char *fallback; /* JSON; "null" means inferred if the kinds do not include null */
    double least, most;
    bool is_managed; /* the next field, its twin, is the same field for inference */
    bool is_twin;
    const char *help;
} bgi_ipu_field;

extern const bgi_ipu_field bgi_ipu_fields[BGI_IPU_FIELD_COUNT];

/* The settled value of a field. */
typedef struct bgi_ipu_value {
    json_t *json;
    int64_t *integers; /* elements of a list of numbers */
    double *reals;
    char *text; /* the text of a map */
    size_t count;
} bgi_ipu_value;

struct bg_ipu_config {
    json_t *given[BGI_IPU_FIELD_COUNT]; /* NULL if not given; JSON null if given as null */
    bgi_ipu_value values[BGI_IPU_FIELD_COUNT];
    json_t *kept;     /* keys of the file that are not fields */
    bgi_string notes; /* lines of notes from reading */
    bool is_from_file;
    bool hides_version; /* whether written files lack the version of Brigade */
    bool is_inference;  /* the mode */
};

/* Finds the field with a name; returns BGI_IPU_FIELD_COUNT if there is none. */
bgi_ipu_field_id bgi_ipu_field_find(const char *name);
/* Finds the field whose name is nearest to a mistyped one; returns NULL if none is near. */
const char *bgi_ipu_field_nearest(const char *name);
/* Whether a key is a version or another record of the program that wrote the file; such a key is kept without a
 * note. */
bool bgi_ipu_is_record(const char *name);
/* Whether a key is a deprecated field, which is kept with a note. */
bool bgi_ipu_is_deprecated(const char *name);
/* Returns the current name of a field with an old name; NULL if the name is not an old one. */
const char *bgi_ipu_renamed(const char *name);

/* Computes values from given ones, and adds every problem to `problems`. Returns false if there were problems. Fields
 * with problems then have their defaults, and the others have their values. */
bool bgi_ipu_settle(bg_ipu_config *config, bgi_problems *problems);
/* Returns the settled value of a field or, for inference, of its twin, if the field has one. */
const bgi_ipu_value *bgi_ipu_held(const bg_ipu_config *config, bgi_ipu_field_id id, bool for_inference);
bgi_ipu_field_id bgi_ipu_in_mode(bgi_ipu_field_id id, bool for_inference);
int64_t bgi_ipu_integer(const bg_ipu_config *config, bgi_ipu_field_id id);
bool bgi_ipu_bool(const bg_ipu_config *config, bgi_ipu_field_id id);

void bgi_ipu_value_clear(bgi_ipu_value *value);

/* Creates an empty configuration, in which no value is given or settled. */
bg_status bgi_ipu_config_begin(bg_ipu_config **out, bg_error *error);
/* Gives a field the value `json`, of which it takes a new reference; NULL removes the value. */
void bgi_ipu_give(bg_ipu_config *config, bgi_ipu_field_id id, json_t *json);
/* Turns every settled value into a given one. */
void bgi_ipu_give_all(bg_ipu_config *config);
/* Settles `trial` and, if it has no problems, moves it into `config`. `trial` is destroyed either way. */
bg_status bgi_ipu_take(bg_ipu_config *config, bg_ipu_config *trial, bg_error *error);

/* Sets the given values from an update string, without settling. */
void bgi_ipu_read_updates(bg_ipu_config *config, const char *text, bgi_problems *problems);
/* Reads a tree as a configuration, settles as many fields as possible, and adds the problems of the others to
 * `problems`. *out is set unless memory is exhausted. */
bg_status bgi_ipu_read_document(const bgi_document *document, const char *name,
                                const bg_ipu_config_load_options *options, bg_ipu_config **out, bgi_problems *problems,
                                bg_error *error);
/* Finds the file that a path denotes, which for a folder is ipu_config.json in it. The result is malloc'ed. */
bg_status bgi_ipu_file_of(const char *path, char **out, bg_error *error);
/* Returns the tree to write to a file, a new reference; NULL when memory is exhausted. */
json_t *bgi_ipu_document_of(const bg_ipu_config *config);

/* Checks the splits of a serialized layer over devices; returns the problem as text, or NULL. */
const char *bgi_splits_check(const int64_t *splits, size_t count);

/* The settled values for training or inference as a plain struct. Lists are borrowed. */
typedef struct bgi_ipu_settings {
    bool has_seed;
    int64_t seed;
    bool auto_loss_scaling;   /* false in inference */
    const char *cache_folder; /* NULL: none */
    uint32_t replicas, gradient_accumulation, device_iterations;
    const int64_t *layers_per_ipu; /* with wildcards */
    size_t layers_count;
    uint32_t ipus_per_replica;
    bool optimizer_state_offchip, replicated_tensor_sharding, enable_half_partials, recompute_checkpoint_every_layer;
    const double *matmul_proportion; /* one value for all devices, or one for each */
    size_t matmul_count;
    uint32_t embedding_factor, projection_factor;        /* 1 without serialization; with splits, their sum */
    const int64_t *embedding_splits, *projection_splits; /* ipus_per_replica elements, or NULL */
    bg_output_mode output_mode;
} bgi_ipu_settings;
bgi_ipu_settings bgi_ipu_config_settings(const bg_ipu_config *config, bool for_inference);

#endif

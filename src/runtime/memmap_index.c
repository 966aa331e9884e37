/*
 * memmap_index.c: the index of files of remote buffers: what makes the stores beside it the state of a training. It is
 * a checkpoint of what is not in the stores, with the same metadata of weights and the same checksum, and says which
 * stores belong to it.
 */
#include "runtime/memmap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "runtime/checkpoint.h"
#include "runtime/session.h"
#include "runtime/weights.h"

/* Keys beside those of checkpoints. */
#define KEY_VERSION  "memmap_version"
#define KEY_IDENTITY "plan"
#define KEY_ID       "files"
#define KEY_NOTE     "note"
enum { VERSION = 1 };

/* ---- reading ---- */

static bg_status read_index(bgi_memmap_index *index, uint64_t identity, bg_error *error)
{
    uint64_t version = 0;

    BGI_TRY(bgi_checkpoint_check_sum(index->file, "index of remote buffers", error));
    BGI_TRY(bgi_checkpoint_read_number(index->file, KEY_VERSION, &version, error));
    if (version != VERSION)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "version %" PRIu64 " of the format, expected %d: another release of Brigade wrote it",
                            version, VERSION);
    BGI_TRY(bgi_checkpoint_read_number(index->file, KEY_IDENTITY, &index->identity, error));
    BGI_TRY(bgi_checkpoint_read_number(index->file, KEY_ID, &index->id, error));
    BGI_TRY(bgi_checkpoint_read_number(index->file, BGI_CHECKPOINT_STEP, &index->step, error));
    BGI_TRY(bgi_checkpoint_read_number(index->file, BGI_CHECKPOINT_SEED, &index->seed, error));
    index->note = bg_safetensors_metadata_find(index->file, KEY_NOTE);
    if (index->note == NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "metadata `" KEY_NOTE "` is missing");
    if (index->identity != identity)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "is of another plan (model, devices or strategy): its remote buffers lie elsewhere");
    return BG_OK;
}

bg_status bgi_memmap_index_read(const char *path, uint64_t identity, bgi_memmap_index *out, bg_error *error)
{
    bgi_memmap_index index = {.file = NULL};
    bg_error inner = {0};
    bg_status status = bg_safetensors_open(path, &index.file, &inner);

    if (status == BG_OK) {
        status = read_index(&index, identity, &inner);
        if (status != BG_OK)
            bg_error_context(&inner, status, "%s", path);
    }
    if (status == BG_OK) {
        *out = index;
        return BG_OK;
    }
    bgi_memmap_index_clear(&index);
    return bg_error_set(error, status,
                        "memmap_dir: %.3000s; it is not used: go on with the same plan, load a checkpoint into files "
                        "that are made anew, or use another directory",
                        inner.message);
}

void bgi_memmap_index_clear(bgi_memmap_index *index)
{
    bg_safetensors_destroy(index->file);
    memset(index, 0, sizeof *index);
}

bg_status bgi_memmap_index_take(const bgi_memmap_index *index, bg_weights *weights, uint32_t number, bg_error *error)
{
    bgi_weight *weight = &weights->items[number];
    const bg_safetensors_entry *entry = bg_safetensors_find(index->file, weight->name);
    char have[BG_TYPE_TEXT_BYTES], given[BG_TYPE_TEXT_BYTES];
    bgi_checkpoint_record about;

    BGI_TRY(bgi_checkpoint_find_record(index->file, weight->name, &about, error));
    weight->is_given = about.is_given;
    weight->updates = about.updates;
    if (weight->home != NULL)
        return BG_OK;
    if (entry == NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "memmap_dir: the index has no value of `%s`", weight->name);
    if (!bg_type_equal(&entry->type, &weight->type))
        return bg_error_set(error, BG_ERROR_SHAPE, "memmap_dir: the index has `%s` as %s, the weight is %s",
                            weight->name, bg_type_text(&entry->type, given), bg_type_text(&weight->type, have));
    memcpy(weight->data, entry->data, bg_type_size_bytes(&weight->type));
    return BG_OK;
}

/* ---- writing ---- */

static bg_status fill_index(bgi_checkpoint_content *c, const bgi_memmap *memmap, bg_session *session, const char *note,
                            bg_error *error)
{
    bg_weights *weights = session->weights;

    BGI_TRY(bgi_checkpoint_add_number(c, KEY_VERSION, VERSION, error));
    BGI_TRY(bgi_checkpoint_add_number(c, KEY_IDENTITY, bgi_memmap_identity(memmap), error));
    BGI_TRY(bgi_checkpoint_add_number(c, KEY_ID, bgi_memmap_id(memmap), error));
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_STEP, weights->step, error));
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_SEED, session->plan->options.seed, error));
    bgi_checkpoint_add(c, KEY_NOTE, note);
    for (uint32_t i = 0; i < session->plan->variable_count; i++) {
        const uint32_t weight = session->variables[i].weight;
        if (weight == UINT32_MAX)
            continue;
        /* What another session has trained goes home, and a value that was lost is no state to go on from. */
        BGI_TRY(bgi_weights_pull(weights, weight, error));
        BGI_TRY(bgi_checkpoint_add_weight(c, weight, weights->items[weight].home != session, error));
    }
    return BG_OK;
}

bg_status bgi_memmap_finish(bgi_memmap *memmap, bg_session *session, const char *note, bg_error *error)
{
    bgi_checkpoint_content c = {0};
    bg_status status;

    BGI_TRY_CLEANUP(bgi_checkpoint_begin(&c, session->weights, error));
    BGI_TRY_CLEANUP(bgi_memmap_begin(memmap, error));
    BGI_TRY_CLEANUP(fill_index(&c, memmap, session, note, error));
    BGI_TRY_CLEANUP(bgi_memmap_flush(memmap, error));
    BGI_TRY_CLEANUP(bgi_checkpoint_write(&c, bgi_memmap_index_path(memmap), error));
    bgi_memmap_set_complete(memmap);
cleanup:
    bgi_checkpoint_end(&c);
    return status;
}

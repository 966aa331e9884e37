/*
 * memmap_index.c: reads and writes the index of files of remote buffers, which makes the stores in the same directory a
 * training state. The index has the identity of the stores, the progress of training, and the values of the weights
 * that are in no store.
 *
 *     | page: magic, version, identity, id | records, an archive | values, in the order of their records | CRC-64 |
 *
 * Values are written one after another, so that at most one of them is in memory in addition to the weights.
 */
#include "runtime/memmap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/archive.h"
#include "core/crc64.h"
#include "core/error.h"
#include "core/file.h"
#include "runtime/agree.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "transport/ranks.h"

static const char magic[16] = "brigade index\r\n";
enum { VERSION = 1, BYTE_ORDER_MARK = 0x01020304, SUM_BYTES = 8, PART_BYTES = 1 << 18 };

/* The first bytes of the file, in the machine's byte order. */
typedef struct page {
    char magic[16];
    uint32_t version, byte_order;
    uint64_t identity, id;
    uint64_t records_bytes, values_bytes;
} page;

/* ---- records ---- */

/* A weight's properties and type, and whether its value is in the index. */
struct bgi_memmap_record {
    const char *name;
    bg_variable_role role;
    bool is_given, has_value;
    uint64_t updates;
    bg_type type;
    uint64_t offset; /* the value's offset among the values; not stored in the file */
};

static void visit_record(bgi_archive *a, bgi_memmap_record *record)
{
    bgi_archive_text(a, &record->name);
    BGI_ARCHIVE_ENUM(a, record->role, BG_ROLE_TRAINING + 1);
    bgi_archive_bool(a, &record->is_given);
    bgi_archive_u64(a, &record->updates);
    bgi_archive_bool(a, &record->has_value);
    BGI_ARCHIVE_ENUM(a, record->type.dtype, BG_DTYPE_COUNT);
    bgi_archive_below(a, &record->type.rank, BG_MAX_RANK + 1);
    for (uint32_t i = 0; i < record->type.rank; i++)
        bgi_archive_i64(a, &record->type.dims[i]);
}

static void visit_records(bgi_archive *a, bgi_memmap_index *index)
{
    bgi_archive_u64(a, &index->step);
    bgi_archive_u64(a, &index->seed);
    bgi_archive_text(a, &index->note);
    bgi_archive_text(a, &index->optimizer);
    index->records = bgi_archive_list(a, index->records, &index->record_count, sizeof *index->records);
    for (uint32_t i = 0; i < index->record_count; i++)
        visit_record(a, &index->records[i]);
}

/* ---- reading ---- */

static bg_status check_page(const bgi_memmap_index *index, const page *head, bg_error *error)
{
    const uint64_t rest = index->input.size_bytes - sizeof *head - SUM_BYTES;

    if (head->byte_order != BYTE_ORDER_MARK)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "was written by a machine with another byte order");
    if (head->version != VERSION)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "has version %" PRIu32
                            " of the format but must have version %d: another release of Brigade wrote it",
                            head->version, VERSION);
    if (head->records_bytes > rest || head->values_bytes != rest - head->records_bytes)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "has %" PRIu64 " bytes, but its header says %" PRIu64 " of records and %" PRIu64
                            " of values",
                            index->input.size_bytes, head->records_bytes, head->values_bytes);
    return BG_OK;
}

static bg_status check_sum(const bgi_memmap_index *index, bg_error *error)
{
    const uint64_t end = index->input.size_bytes - SUM_BYTES;
    unsigned char *part = malloc(PART_BYTES);
    bg_status status = part != NULL ? BG_OK : bgi_error_memory(error, "a part of an index", PART_BYTES);
    uint64_t expected = 0;
    bgi_crc64 crc;

    bgi_crc64_init(&crc);
    for (uint64_t at = 0, some; status == BG_OK && at < end; at += some) {
        some = end - at < PART_BYTES ? end - at : PART_BYTES;
        status = bgi_input_read(&index->input, at, part, (size_t)some, error);
        bgi_crc64_add(&crc, part, (size_t)some);
    }
    free(part);
    BGI_TRY(status);
    BGI_TRY(bgi_input_read(&index->input, end, &expected, sizeof expected, error));
    if (bgi_crc64_value(&crc) != expected)
        return bg_error_set(error, BG_ERROR_PARSE, "the checksum is %016" PRIx64 ", the file says %016" PRIx64,
                            bgi_crc64_value(&crc), expected);
    return BG_OK;
}

/* Computes the offset of each value; returns false when a record is invalid or the values do not fill the file. */
static bool place_values(bgi_memmap_index *index, uint64_t values_bytes)
{
    uint64_t offset = 0;

    for (uint32_t i = 0; i < index->record_count; i++) {
        bgi_memmap_record *record = &index->records[i];
        if (record->name == NULL || bg_type_validate(&record->type, NULL) != BG_OK)
            return false;
        record->offset = offset;
        if (record->has_value && bg_type_size_bytes(&record->type) > values_bytes - offset)
            return false;
        offset += record->has_value ? bg_type_size_bytes(&record->type) : 0;
    }
    return offset == values_bytes;
}

static bg_status parse_records(bgi_memmap_index *index, const void *content, size_t size_bytes, uint64_t values_bytes,
                               bg_error *error)
{
    bgi_archive archive;
    bg_status status = BG_OK;

    bgi_archive_begin_reading(&archive, content, size_bytes, &index->arena);
    visit_records(&archive, index);
    if (archive.out_of_memory)
        status = bgi_error_memory(error, "an index of remote buffers", size_bytes);
    else if (!bgi_archive_is_read(&archive) || index->note == NULL || !place_values(index, values_bytes))
        status = bg_error_set(error, BG_ERROR_PARSE, "its records are damaged");
    bgi_archive_end(&archive);
    return status;
}

static bg_status read_records(bgi_memmap_index *index, const page *head, bg_error *error)
{
    void *content = malloc((size_t)head->records_bytes + 1);
    bg_status status;

    if (content == NULL)
        return bgi_error_memory(error, "an index of remote buffers", (size_t)head->records_bytes);
    status = bgi_input_read(&index->input, sizeof *head, content, (size_t)head->records_bytes, error);
    if (status == BG_OK)
        status = parse_records(index, content, (size_t)head->records_bytes, head->values_bytes, error);
    free(content);
    index->values_begin = sizeof *head + head->records_bytes;
    return status;
}

static bg_status read_index(bgi_memmap_index *index, uint64_t identity, const char *plan_optimizer, bg_error *error)
{
    page head;

    if (index->input.size_bytes < sizeof head + SUM_BYTES)
        return bg_error_set(error, BG_ERROR_PARSE, "has %" PRIu64 " bytes but must have at least %zu",
                            index->input.size_bytes, sizeof head + SUM_BYTES);
    BGI_TRY(bgi_input_read(&index->input, 0, &head, sizeof head, error));
    if (memcmp(head.magic, magic, sizeof magic) != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "is not an index of remote buffers");
    BGI_TRY(check_sum(index, error));
    BGI_TRY(check_page(index, &head, error));
    BGI_TRY(read_records(index, &head, error));
    index->id = head.id;
    if (head.identity != identity)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "belongs to another plan (model, devices or strategy), whose remote buffers have another layout");
    if (index->optimizer != NULL && plan_optimizer[0] != '\0' && strcmp(index->optimizer, plan_optimizer) != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "has the state of optimizer `%.79s`, but the plan trains with `%s`", index->optimizer,
                            plan_optimizer);
    return BG_OK;
}

/* Reads an open input, which the index owns on success; otherwise it is closed. */
static bg_status read_input(bgi_input *input, uint64_t identity, const char *optimizer, bgi_memmap_index *out,
                            bg_error *error)
{
    bgi_memmap_index index = {.input = *input};
    bg_status status = read_index(&index, identity, optimizer, error);

    if (status == BG_OK) {
        *out = index;
        return BG_OK;
    }
    bg_error_context(error, status, "%s", input->name);
    bgi_memmap_index_clear(&index);
    return status;
}

bg_status bgi_memmap_index_read(const char *path, uint64_t identity, const char *optimizer, bgi_memmap_index *out,
                                bg_error *error)
{
    bgi_input input = {.name = NULL};
    bg_error inner = {0};
    bg_status status = bgi_input_open(&input, path, &inner);

    if (status == BG_OK)
        status = read_input(&input, identity, optimizer, out, &inner);
    if (status == BG_OK)
        return BG_OK;
    return bg_error_set(error, status,
                        "memmap_dir: %.3000s; it is not used: resume with the same plan, load a checkpoint into new "
                        "files, or use another directory",
                        inner.message);
}

bg_status bgi_memmap_index_parse(const char *name, const void *content, size_t size_bytes, uint64_t identity,
                                 const char *optimizer, bgi_memmap_index *out, bg_error *error)
{
    bgi_input input;

    BGI_TRY(bgi_input_over(&input, name, content, size_bytes, error));
    return read_input(&input, identity, optimizer, out, error);
}

void bgi_memmap_index_clear(bgi_memmap_index *index)
{
    bgi_input_close(&index->input);
    bgi_arena_clear(&index->arena);
    memset(index, 0, sizeof *index);
}

static const bgi_memmap_record *find_record(const bgi_memmap_index *index, const char *name)
{
    for (uint32_t i = 0; i < index->record_count; i++)
        if (strcmp(index->records[i].name, name) == 0)
            return &index->records[i];
    return NULL;
}

bg_status bgi_memmap_index_take(const bgi_memmap_index *index, bg_weights *weights, uint32_t number, bool is_in_stores,
                                bg_error *error)
{
    bgi_weight *weight = &weights->items[number];
    const bgi_memmap_record *record = find_record(index, weight->name);
    char have[BG_TYPE_TEXT_BYTES], given[BG_TYPE_TEXT_BYTES];

    if (record == NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "memmap_dir: the index has no weight `%s`", weight->name);
    weight->is_given = record->is_given;
    weight->updates = record->updates;
    if (is_in_stores)
        return BG_OK;
    if (!record->has_value)
        return bg_error_set(error, BG_ERROR_PARSE, "memmap_dir: the index has no value of `%s`", weight->name);
    if (!bg_type_equal(&record->type, &weight->type))
        return bg_error_set(error, BG_ERROR_SHAPE, "memmap_dir: the index has `%s` as %s, but the weight is %s",
                            weight->name, bg_type_text(&record->type, given), bg_type_text(&weight->type, have));
    return BG_OK;
}

bg_status bgi_memmap_index_value(const bgi_memmap_index *index, const bg_weights *weights, uint32_t number,
                                 size_t offset, void *data, size_t size_bytes, bg_error *error)
{
    const bgi_memmap_record *record = find_record(index, weights->items[number].name);

    return bgi_input_read(&index->input, index->values_begin + record->offset + offset, data, size_bytes, error);
}

/* ---- for other ranks ---- */

/* The data that rank 0 sends before the records. */
typedef struct shared_head {
    uint64_t id, records_bytes, values_bytes;
} shared_head;

static bg_status write_records(bgi_memmap_index *index, bgi_archive *archive, shared_head *head, bg_error *error)
{
    bgi_archive_begin_writing(archive);
    visit_records(archive, index);
    if (archive->has_failed)
        return bgi_error_memory(error, "an index of remote buffers", archive->size_bytes);
    head->id = index->id;
    head->records_bytes = archive->size_bytes;
    for (uint32_t i = 0; i < index->record_count; i++)
        head->values_bytes += index->records[i].has_value ? bg_type_size_bytes(&index->records[i].type) : 0;
    return BG_OK;
}

static bg_status send_records(bgi_memmap_index *index, bgi_transport *transport, bg_error *error)
{
    shared_head head = {0};
    bgi_archive archive;
    bg_status status = write_records(index, &archive, &head, error);

    status = bgi_ranks_settle(transport, status, NULL, error);
    if (status == BG_OK)
        status = bgi_ranks_share(transport, 0, &head, sizeof head, error);
    if (status == BG_OK)
        status = bgi_ranks_share(transport, 0, archive.data, archive.size_bytes, error);
    bgi_archive_end(&archive);
    return status;
}

static bg_status receive_records(bgi_memmap_index *index, bgi_transport *transport, bg_error *error)
{
    shared_head head = {0};
    void *content;
    bg_status status;

    BGI_TRY(bgi_ranks_settle(transport, BG_OK, NULL, error));
    BGI_TRY(bgi_ranks_share(transport, 0, &head, sizeof head, error));
    content = malloc((size_t)head.records_bytes + 1);
    if (content == NULL)
        return bgi_error_memory(error, "an index of remote buffers", (size_t)head.records_bytes);
    status = bgi_ranks_share(transport, 0, content, (size_t)head.records_bytes, error);
    if (status == BG_OK)
        status = parse_records(index, content, (size_t)head.records_bytes, head.values_bytes, error);
    free(content);
    index->id = head.id;
    return status;
}

bg_status bgi_memmap_index_share(bgi_memmap_index *index, bgi_transport *transport, bg_error *error)
{
    return transport->setup.ranks->carrier->rank == 0 ? send_records(index, transport, error)
                                                      : receive_records(index, transport, error);
}

/* ---- writing ---- */

/* Returns the optimizer to which all state of the weights belongs; NULL: there is no state, or state of several
 * optimizers. */
static const char *find_optimizer(const bg_weights *weights)
{
    const char *optimizer = NULL;

    for (uint32_t i = 0; i < weights->count; i++) {
        const bgi_weight *weight = &weights->items[i];
        if (weight->is_gone || weight->role != BG_ROLE_STATE)
            continue;
        if (weight->optimizer[0] == '\0' || (optimizer != NULL && strcmp(optimizer, weight->optimizer) != 0))
            return NULL;
        optimizer = weight->optimizer;
    }
    return optimizer;
}

bg_status bgi_memmap_index_list(bgi_memmap_index *index, const bg_session *session, bg_error *error)
{
    bg_weights *weights = session->weights;

    index->step = weights->step;
    index->seed = session->plan->options.numerics.seed;
    index->optimizer = find_optimizer(weights);
    index->records = bgi_arena_allocate(&index->arena, session->plan->variable_count + 1u, sizeof *index->records);
    if (index->records == NULL)
        return bgi_error_memory(error, "an index of remote buffers",
                                session->plan->variable_count * sizeof *index->records);
    for (uint32_t i = 0; i < session->plan->variable_count; i++) {
        const uint32_t number = session->variables[i].weight;
        const bgi_weight *weight;
        if (number == UINT32_MAX || session->variables[i].is_repeated)
            continue;
        /* Moves values that another session has trained to their homes; fails for lost values. */
        BGI_TRY(bgi_weights_pull(weights, number, error));
        weight = &weights->items[number];
        index->records[index->record_count++] =
            (bgi_memmap_record){.name = weight->name,
                                .role = weight->role,
                                .is_given = weight->is_given,
                                .updates = weight->updates,
                                .has_value = weight->home != session || !bgi_session_is_in_stores(session, i),
                                .type = weight->type};
    }
    return BG_OK;
}

/* Appends bytes to the file and adds them to its final checksum. */
static void write_part(bgi_file_writer *writer, bgi_crc64 *crc, const void *data, size_t size_bytes)
{
    bgi_file_write(writer, data, size_bytes);
    bgi_crc64_add(crc, data, size_bytes);
}

static bg_status write_values(bgi_file_writer *writer, bgi_crc64 *crc, const bgi_memmap_index *index,
                              bg_weights *weights, bg_error *error)
{
    for (uint32_t i = 0; i < index->record_count; i++) {
        const bgi_memmap_record *record = &index->records[i];
        const void *data = NULL;
        if (!record->has_value)
            continue;
        BGI_TRY(bgi_weights_fetch(weights, bgi_weights_index(weights, record->name), &data, error));
        write_part(writer, crc, data, bg_type_size_bytes(&record->type));
    }
    return BG_OK;
}

static bg_status write_index(const char *path, const page *head, const bgi_archive *archive,
                             const bgi_memmap_index *index, bg_weights *weights, bg_error *error)
{
    bgi_file_writer writer = {0};
    bgi_crc64 crc;
    uint64_t sum;
    bg_status status;

    BGI_TRY(bgi_file_writer_begin(&writer, path, error));
    bgi_crc64_init(&crc);
    write_part(&writer, &crc, head, sizeof *head);
    write_part(&writer, &crc, archive->data, archive->size_bytes);
    status = write_values(&writer, &crc, index, weights, error);
    if (status != BG_OK) {
        bgi_file_writer_abandon(&writer, NULL);
        return status;
    }
    sum = bgi_crc64_value(&crc);
    bgi_file_write(&writer, &sum, sizeof sum);
    return bgi_file_writer_commit(&writer, error);
}

bg_status bgi_memmap_index_write(const char *path, uint64_t identity, bgi_memmap_index *index, bg_weights *weights,
                                 bg_error *error)
{
    page head = {.version = VERSION, .byte_order = BYTE_ORDER_MARK, .identity = identity, .id = index->id};
    bgi_archive archive;
    bg_status status;

    memcpy(head.magic, magic, sizeof magic);
    for (uint32_t i = 0; i < index->record_count; i++)
        head.values_bytes += index->records[i].has_value ? bg_type_size_bytes(&index->records[i].type) : 0;
    bgi_archive_begin_writing(&archive);
    visit_records(&archive, index);
    head.records_bytes = archive.size_bytes;
    if (archive.has_failed)
        status = bgi_error_memory(error, "an index of remote buffers", archive.size_bytes);
    else
        status = write_index(path, &head, &archive, index, weights, error);
    bgi_archive_end(&archive);
    return status;
}

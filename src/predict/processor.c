/*
 * processor.c: finds the name of this machine's processor, as the system reports it.
 */
#include <stdio.h>
#include <string.h>

#include "core/isa.h"
#include "core/text.h"
#include "predict/call_costs.h"

static void read_field(const char *line, const char *field, char *out, size_t size_bytes)
{
    const char *colon = strchr(line, ':');

    if (colon != NULL && strncmp(line, field, strlen(field)) == 0 &&
        strspn(line + strlen(field), " \t") == (size_t)(colon - line) - strlen(field) && out[0] == '\0')
        snprintf(out, size_bytes, "%.*s", (int)strcspn(colon + 1 + strspn(colon + 1, " "), "\n"),
                 colon + 1 + strspn(colon + 1, " "));
}

const char *bgi_processor_text(char *text, size_t size_bytes)
{
    FILE *stream = fopen("/proc/cpuinfo", "r");
    char line[512], name[64] = "", family[16] = "", model[16] = "";

    /* Reads only the fields of the first core. */
    while (stream != NULL && (name[0] == '\0' || family[0] == '\0' || model[0] == '\0') &&
           fgets(line, sizeof line, stream) != NULL) {
        read_field(line, "model name", name, sizeof name);
        read_field(line, "cpu family", family, sizeof family);
        read_field(line, "model", model, sizeof model);
    }
    if (stream != NULL)
        fclose(stream);
    snprintf(text, size_bytes, "%s, family %s, model %s, %s", name[0] != '\0' ? name : "unknown processor",
             family[0] != '\0' ? family : "-", model[0] != '\0' ? model : "-", bgi_isa_name(bgi_cpu_isa()));
    bgi_string_escape(text, size_bytes, false);
    return text;
}

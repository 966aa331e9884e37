/*
 * launcher.h: finds the launcher of several processes, such as mpirun, by the variables that it sets in the environment
 * of each.
 */
#ifndef BGI_CORE_LAUNCHER_H
#define BGI_CORE_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bgi_launcher {
    const char *name;
    const char *mpi;         /* the MPI that it usually belongs to: openmpi or mpich */
    const char *size, *rank; /* variables; size NULL: the launcher does not give the number of processes */
    bool needs_interface;    /* processes have an MPI only if they also have the variables of another launcher */
} bgi_launcher;

/* Returns the launcher of this process, or NULL if the process was started alone. */
const bgi_launcher *bgi_launcher_find(void);
/* Whether this process has the variables of PMIx or PMI, which the processes of a launcher with needs_interface need
 * for MPI. */
bool bgi_launcher_has_interface(void);
/* Returns the number in a variable of the environment, or 0. */
uint64_t bgi_launcher_number(const char *variable);

#endif

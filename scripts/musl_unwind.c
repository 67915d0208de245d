/* _dl_find_object, by which GCC's unwinder finds the frames of a function: glibc has it, musl has not.
 * scripts/targets.sh adds it to the unwinder of static programs. */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* As glibc declares it. */
struct dl_find_object {
    unsigned long long flags;
    void *start, *end, *link_map, *eh_frame;
    unsigned long long reserved[7];
};

struct search {
    uintptr_t address;
    struct dl_find_object *found;
};

static int look(struct dl_phdr_info *object, size_t size, void *data) {
    struct search *search = data;
    uintptr_t start = 0, end = 0, frames = 0;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        const uintptr_t first = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && search->address - first < part->p_memsz) {
            start = first;
            end = first + part->p_memsz;
        } else if (part->p_type == PT_GNU_EH_FRAME) {
            frames = first;
        }
    }
    if (end == 0 || frames == 0) {
        return 0;
    }
    search->found->start = (void *)start;
    search->found->end = (void *)end;
    search->found->eh_frame = (void *)frames;
    return 1;
}

/* 0 if the object that holds `address` was found. */
int _dl_find_object(void *address, struct dl_find_object *found) {
    struct search search = {(uintptr_t)address, found};
    return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}

/* GCC's unwinder names these weakly, which links none of them, and calls them nevertheless. */
const void *const betz_unwinder_needs[] = {
    (const void *)pthread_once,       (const void *)pthread_getspecific, (const void *)pthread_setspecific,
    (const void *)pthread_key_create, (const void *)pthread_mutex_lock,  (const void *)pthread_mutex_unlock,
};

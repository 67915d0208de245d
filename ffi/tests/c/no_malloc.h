// A test whose steps may not allocate: while `forbidden` is set, malloc and its kin end the program.
//
// Sanitizers have their own; `realtime` checks that such replacements are in force. For one file of a program alone.
#ifndef BETZ_TEST_NO_MALLOC_H
#define BETZ_TEST_NO_MALLOC_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int forbidden;

__attribute__((unused)) static void guard(const char *what) {
    if (forbidden) {
        forbidden = 0;
        fprintf(stderr, "%s in a step\n", what);
        abort();
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

void *malloc(size_t n) { guard("malloc"); return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { guard("calloc"); return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { guard("realloc"); return __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { guard("memalign"); return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { guard("aligned_alloc"); return __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) {
    guard("posix_memalign");
    *p = __libc_memalign(a, n);
    return *p ? 0 : ENOMEM;
}
void free(void *p) { guard("free"); __libc_free(p); }
#endif

#endif

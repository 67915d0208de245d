/**
 * @file betz_page.h
 * The page of a session at work: see in a browser what a program decodes. Functions of libbetz_page, which has
 * all of libbetz's (betz.h) besides: link it in libbetz's place.
 *
 *     betz_monitor *monitor = NULL;
 *     betz_monitor_open(model, NULL, &monitor);
 *     betz_monitor_attach(monitor, session, 0);
 *     puts(betz_monitor_url(monitor));    (to open in a browser, with its token)
 *     ... the session steps as before ...
 *     betz_monitor_close(monitor);
 */
#ifndef BETZ_PAGE_H
#define BETZ_PAGE_H

#include <betz.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The page of a session, served by two threads of low priority. */
typedef struct betz_monitor betz_monitor;

/** How a page is served: zero it, then set struct_size and what is wanted. Texts are copied. */
typedef struct betz_monitor_config {
    /** sizeof(betz_monitor_config). */
    uint32_t struct_size;
    /** Port to listen on; 0: any that is free. */
    uint32_t port;
    /** What the page calls the session, UTF-8; NULL: "a session". */
    const char *name;
    /** Address to listen on, in numbers; NULL: 127.0.0.1. Elsewhere everybody on the way reads along. */
    const char *address;
    /** Steps that take longer, in microseconds, are marked, and what lay around them is kept. 0: none. */
    double deadline_us;
} betz_monitor_config;

/**
 * Opens the page of a session that runs `model`, and starts its threads. `config` may be NULL. Nothing can be
 * controlled from it. BETZ_ERROR_IO when the address cannot be had. Thread-safe: yes. Realtime-safe: no.
 * Allocates: yes.
 */
BETZ_API BETZ_CHECKED betz_status betz_monitor_open(const betz_model *model, const betz_monitor_config *config,
                                                    betz_monitor **out);

/**
 * From its next step on, which is `first_tick`, `session` shows what it does. A step never waits for the page:
 * what finds no room is counted there as not shown. One session a page; either may be closed first.
 * BETZ_ERROR_MISMATCH for a session of other channels, outputs or another step. Thread-safe: yes, also while the
 * session steps in another thread. Realtime-safe: no. Allocates: yes.
 */
BETZ_API BETZ_CHECKED betz_status betz_monitor_attach(betz_monitor *monitor, betz_session *session,
                                                      int64_t first_tick);

/** What to open in a browser, with its token: who has it may look. Lives as long as the monitor. Thread-safe: yes. */
BETZ_API const char *betz_monitor_url(const betz_monitor *monitor);

/** Pages that watch now. Thread-safe: yes. */
BETZ_API size_t betz_monitor_viewers(const betz_monitor *monitor);

/** Ends the page and frees it; the session goes on. NULL is nothing to do. Nobody may use it any more. */
BETZ_API void betz_monitor_close(betz_monitor *monitor);

#ifdef __cplusplus
}
#endif
#endif

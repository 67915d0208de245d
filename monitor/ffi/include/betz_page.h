/**
 * @file betz_page.h
 * The page of a running session: see in a browser what a program decodes. Functions of libbetz_page, which also has
 * all functions of libbetz (betz.h): link it in place of libbetz.
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

/** Options of a page: zero it, then set struct_size and the fields that you need. Texts are copied. */
typedef struct betz_monitor_config {
    /** sizeof(betz_monitor_config). */
    uint32_t struct_size;
    /** Port to listen on; 0 chooses a free one. */
    uint32_t port;
    /** Name of the session on the page, UTF-8; NULL: "a session". */
    const char *name;
    /** IP address to listen on; NULL: 127.0.0.1. On any other address, everybody on the network path can read along. */
    const char *address;
    /** Deadline of a step in microseconds. Slower steps are marked and the frames around them are stored. 0: none. */
    double deadline_us;
} betz_monitor_config;

/**
 * Opens the page of a session that runs `model`, and starts its threads. `config` may be NULL. The page is
 * read-only. BETZ_ERROR_IO if the address cannot be bound. Thread-safe: yes. Realtime-safe: no.
 * Allocates: yes.
 */
BETZ_API BETZ_CHECKED betz_status betz_monitor_open(const betz_model *model, const betz_monitor_config *config,
                                                    betz_monitor **out);

/**
 * Shows `session` on the page from its next step on, which gets the tick `first_tick`. A step never waits for the
 * page: a step that does not fit is counted there as not shown. A page shows one session; either may be closed first.
 * BETZ_ERROR_MISMATCH if the session's channels, outputs or step differ from the model's. Thread-safe: yes, also
 * while the session steps in another thread. Realtime-safe: no. Allocates: yes.
 */
BETZ_API BETZ_CHECKED betz_status betz_monitor_attach(betz_monitor *monitor, betz_session *session,
                                                      int64_t first_tick);

/**
 * Address to open in a browser, with its token: everybody who has it can watch. Lives as long as the monitor.
 * Thread-safe: yes.
 */
BETZ_API const char *betz_monitor_url(const betz_monitor *monitor);

/** Number of pages that watch now. Thread-safe: yes. */
BETZ_API size_t betz_monitor_viewers(const betz_monitor *monitor);

/** Ends the page and frees it; the session goes on. Does nothing for NULL. `monitor` is invalid afterwards. */
BETZ_API void betz_monitor_close(betz_monitor *monitor);

#ifdef __cplusplus
}
#endif
#endif

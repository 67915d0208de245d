/* A call's status and message, for tests that go on after a wrong one. */
#ifndef BETZ_TEST_EXPECT_H
#define BETZ_TEST_EXPECT_H

#include <betz.h>

#include <stdio.h>
#include <string.h>

static int failed = 0;

static void expect(betz_status got, betz_status wanted, const char *words, const char *what) {
    char message[1024] = "";
    if (got != BETZ_OK) {
        betz_last_error(message, sizeof message);
    }
    if (got != wanted || strstr(message, words) == NULL) {
        fprintf(stderr, "%s: expected %s with \"%s\", got %s: %s\n", what, betz_status_string(wanted), words,
                betz_status_string(got), message);
        failed = 1;
    }
}

#endif

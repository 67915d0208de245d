/* Arrival to output of a whole session, measured outside it, in microseconds: the time from sending the block of voltage that
 * completes a step to receiving the step's output. Blocks of 1 ms at 30 kHz, as plain datagrams (docs/connect.md).
 *
 *     cc -O2 -o live_arrival live_arrival.c
 *     betz run session.toml &     # from = "udp://127.0.0.1:21003", to = ["udp://127.0.0.1:21004"], the channels of its model
 *     ./live_arrival 21003 21004 CHANNELS SECONDS ROWS_OF_A_STEP
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 32, ROWS = 30, LARGEST = 65507 };

static double microseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **words) {
    if (count < 6) {
        fprintf(stderr, "usage: %s PORT_OF_BETZ PORT_HERE CHANNELS SECONDS ROWS_OF_A_STEP\n", words[0]);
        return 2;
    }
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, here = there;
    there.sin_port = htons((uint16_t)atoi(words[1]));
    here.sin_port = htons((uint16_t)atoi(words[2]));
    int channels = atoi(words[3]), step_rows = atoi(words[5]);
    long blocks = atol(words[4]) * 1000;
    size_t length = HEADER + 2 * (size_t)ROWS * (size_t)channels;
    if (channels < 1 || step_rows < ROWS || blocks < 1 || length > LARGEST) {
        fprintf(stderr, "expected up to %d channels, a second at least, and steps of %d rows at least\n", (LARGEST - HEADER) / 2 / ROWS, ROWS);
        return 2;
    }
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (s < 0 || bind(s, (const struct sockaddr *)&here, sizeof here) != 0) {
        perror("socket");
        return 1;
    }
    double *sent = calloc((size_t)blocks, sizeof *sent), *waits = calloc((size_t)blocks, sizeof *waits);
    unsigned char *block = calloc(1, length), output[4096];
    memcpy(block, "BETZ\x01\x04", 6);
    uint16_t width = (uint16_t)channels;
    uint32_t millihertz = 30000000, random = 1;
    memcpy(block + 6, &width, 2);
    memcpy(block + 28, &millihertz, 4);
    long got = 0, foreign = 0;
    double begun = microseconds();
    for (long number = 0; number < blocks; number++) {
        uint64_t first = (uint64_t)number * ROWS;
        int64_t now = (int64_t)(microseconds() * 1e3);
        memcpy(block + 8, &first, 8);
        memcpy(block + 16, &now, 8);
        for (size_t at = HEADER; at < length; at += 2) {
            random = random * 1664525u + 1013904223u;
            int16_t value = (int16_t)((int)(random >> 16) % 100 - 50);
            memcpy(block + at, &value, 2);
        }
        while (microseconds() < begun + 1000.0 * (double)(number + 1)) {
            /* Looks without a pause: a sleep would be in the time that is measured. */
            ssize_t came = recv(s, output, sizeof output, MSG_DONTWAIT);
            if (came < HEADER)
                continue;
            uint64_t step;
            memcpy(&step, output + 8, 8);
            long completes = ((long)(step + 1) * step_rows + ROWS - 1) / ROWS - 1;
            if (completes < number && sent[completes] > 0)
                waits[got++] = microseconds() - sent[completes];
            else
                foreign++;
        }
        sent[number] = microseconds();
        sendto(s, block, length, 0, (const struct sockaddr *)&there, sizeof there);
    }
    if (got == 0) {
        fprintf(stderr, "no output came\n");
        return 1;
    }
    qsort(waits, (size_t)got, sizeof *waits, ascending);
    printf("%ld outputs (%ld of no block): p50 %.1f, p99 %.1f, max %.1f\n", got, foreign, waits[got / 2], waits[got * 99 / 100], waits[got - 1]);
    return 0;
}

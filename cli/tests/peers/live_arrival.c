/* Arrival to output of a whole session, measured outside it, in microseconds: the time from sending the block of voltage that
 * completes a step to receiving the step's output. Blocks of 1 ms at 30 kHz, as plain datagrams (docs/connect.md).
 *
 *     cc -O2 -o live_arrival live_arrival.c
 *     betz run session.toml &     # from = "udp://127.0.0.1:21003", to = ["udp://127.0.0.1:21004"], the channels of its model
 *     ./live_arrival 21003 21004 CHANNELS SECONDS ROWS_OF_A_STEP [PROCESS_OF_BETZ]
 *
 * With the number of the session's process, the CPU time (user and system) of each of its threads is printed, in percent of a core
 * (Linux). Each channel has noise and about 20 spikes per second. The first quarter of the time is the session's start, and is left
 * out of all figures.
 */
#include <arpa/inet.h>
#include <dirent.h>
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

enum { MOST_THREADS = 64 };

/* A thread of the session: its number, its name, and its CPU time in nanoseconds. */
struct thread {
    long id;
    char name[32];
    double spent;
};

/* Reads the threads of a process; returns their number. */
static int read_threads(long process, struct thread *threads) {
    char path[512];
    snprintf(path, sizeof path, "/proc/%ld/task", process);
    DIR *tasks = opendir(path);
    int found = 0;
    for (struct dirent *task; tasks && found < MOST_THREADS && (task = readdir(tasks));) {
        struct thread *thread = &threads[found];
        thread->id = atol(task->d_name);
        snprintf(path, sizeof path, "/proc/%ld/task/%ld/comm", process, thread->id);
        FILE *name = thread->id > 0 ? fopen(path, "r") : NULL;
        if (!name)
            continue;
        int named = fscanf(name, "%31[^\n]", thread->name);
        fclose(name);
        snprintf(path, sizeof path, "/proc/%ld/task/%ld/schedstat", process, thread->id);
        FILE *spent = fopen(path, "r");
        if (!spent)
            continue;
        found += fscanf(spent, "%lf", &thread->spent) == 1 && named == 1;
        fclose(spent);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static void print_shares(const struct thread *before, int earlier, const struct thread *after, int later, double seconds) {
    for (int at = 0; at < later; at++) {
        double spent = after[at].spent;
        for (int old = 0; old < earlier; old++)
            if (before[old].id == after[at].id)
                spent -= before[old].spent;
        printf("%s %.2f %% of a core\n", after[at].name, spent / seconds * 1e-7);
    }
}

int main(int count, char **words) {
    if (count < 6) {
        fprintf(stderr, "usage: %s PORT_OF_BETZ PORT_HERE CHANNELS SECONDS ROWS_OF_A_STEP [PROCESS]\n", words[0]);
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
    long got = 0, foreign = 0, process = count > 6 ? atol(words[6]) : 0;
    struct thread before[MOST_THREADS], after[MOST_THREADS];
    int earlier = 0, later = 0;
    double counted = 0;
    double begun = microseconds();
    for (long number = 0; number < blocks; number++) {
        uint64_t first = (uint64_t)number * ROWS;
        if (process && number == blocks / 4) {
            counted = microseconds();
            earlier = read_threads(process, before);
        }
        int64_t now = (int64_t)(microseconds() * 1e3);
        memcpy(block + 8, &first, 8);
        memcpy(block + 16, &now, 8);
        for (size_t at = HEADER; at < length; at += 2) {
            random = random * 1664525u + 1013904223u;
            int16_t value = (int16_t)((int)(random >> 16) % 100 - 50);
            if (random % 1500 == 0)
                value = -600;
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
            if (completes < blocks / 4)
                continue;
            if (completes < number && sent[completes] > 0)
                waits[got++] = microseconds() - sent[completes];
            else
                foreign++;
        }
        sent[number] = microseconds();
        sendto(s, block, length, 0, (const struct sockaddr *)&there, sizeof there);
    }
    if (process) {
        counted = (microseconds() - counted) * 1e-6;
        later = read_threads(process, after);
    }
    if (got == 0) {
        fprintf(stderr, "no output came\n");
        return 1;
    }
    qsort(waits, (size_t)got, sizeof *waits, ascending);
    printf("%ld outputs (%ld of no block): p50 %.1f, p99 %.1f, max %.1f\n", got, foreign, waits[got / 2], waits[got * 99 / 100], waits[got - 1]);
    print_shares(before, earlier, after, later, counted);
    return 0;
}

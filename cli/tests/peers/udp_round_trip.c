/* Round trips of plain datagrams, docs/connect.md, in microseconds:
 *
 *     cc -O2 -o udp_round_trip udp_round_trip.c
 *     betz stream MODEL --in udp://127.0.0.1:21003 --out udp://127.0.0.1:21004 &
 *     ./udp_round_trip 21003 21004            # MODEL of 96 channels
 *     ./udp_round_trip 21001 21002 echo       # against a process that sends back what it gets: what the machine takes itself
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 20000, CHANNELS = 96, HEADER = 32, PAUSE_US = 200 };

static double microseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int socket_at(const struct sockaddr_in *at) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (s < 0 || bind(s, (const struct sockaddr *)at, sizeof *at) != 0) {
        perror("socket");
        exit(1);
    }
    return s;
}

static void echo(const struct sockaddr_in *at, const struct sockaddr_in *to) {
    int s = socket_at(at);
    char bytes[4096];
    for (;;) {
        ssize_t length = recv(s, bytes, sizeof bytes, 0);
        if (length > 0)
            sendto(s, bytes, (size_t)length, 0, (const struct sockaddr *)to, sizeof *to);
    }
}

int main(int count, char **words) {
    if (count < 3) {
        fprintf(stderr, "usage: %s PORT_OF_BETZ PORT_HERE [echo]\n", words[0]);
        return 2;
    }
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, here = there;
    there.sin_port = htons((uint16_t)atoi(words[1]));
    here.sin_port = htons((uint16_t)atoi(words[2]));
    int s = socket_at(&here);
    struct timeval patience = {.tv_sec = 1};
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    pid_t other = count > 3 ? fork() : -1;
    if (other == 0)
        echo(&there, &here);
    usleep(200000);

    static double times[STEPS];
    uint8_t datagram[HEADER + 2 * CHANNELS] = "BETZ\x01\x01";
    uint16_t channels = CHANNELS;
    memcpy(datagram + 6, &channels, sizeof channels);
    for (int c = 0; c < CHANNELS; c++)
        datagram[HEADER + 2 * c] = 1;
    int came = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        char answer[4096];
        memcpy(datagram + 8, &step, sizeof step);
        double sent = microseconds();
        sendto(s, datagram, sizeof datagram, 0, (const struct sockaddr *)&there, sizeof there);
        if (recv(s, answer, sizeof answer, 0) > 0)
            times[came++] = microseconds() - sent;
        usleep(PAUSE_US);
    }
    if (other > 0)
        kill(other, SIGKILL);
    if (came == 0) {
        fprintf(stderr, "nothing came back\n");
        return 1;
    }
    qsort(times, (size_t)came, sizeof *times, ascending);
    printf("%d of %d came back: p50 %.1f us, p99 %.1f us, longest %.0f us\n", came, STEPS, times[came / 2],
           times[(size_t)came * 99 / 100], times[came - 1]);
    return 0;
}

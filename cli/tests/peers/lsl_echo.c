/* Sends back the samples of a stream of LSL, two floats of each: what liblsl and the machine take of a round trip.
 *
 *     cc -O2 -o lsl_echo lsl_echo.c -ldl
 *     ./lsl_echo LIBLSL IN OUT          # streams by their names; lsl_peer.py --echo runs it
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHANNELS = 96, OUTPUTS = 2, FLOAT32 = 1 };

static void *library;

static void *function(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

int main(int count, char **arguments) {
    if (count != 4 || !(library = dlopen(arguments[1], RTLD_NOW))) {
        fprintf(stderr, "usage: lsl_echo LIBLSL IN OUT\n");
        return 2;
    }
    typedef void *(*create_streaminfo)(const char *, const char *, int, double, int, const char *);
    typedef void *(*create_outlet)(void *, int, int);
    typedef int (*resolve)(void **, unsigned, const char *, const char *, int, double);
    typedef void *(*create_inlet)(void *, int, int, int);
    typedef void (*open_stream)(void *, double, int *);
    typedef double (*pull)(void *, float *, int, double, int *);
    typedef int (*push)(void *, const float *, double, int);

    void *info = ((create_streaminfo)function("lsl_create_streaminfo"))(arguments[3], "Movement", OUTPUTS, 500.0, FLOAT32, "echo");
    void *outlet = ((create_outlet)function("lsl_create_outlet"))(info, 0, 360);
    void *found = NULL;
    if (((resolve)function("lsl_resolve_byprop"))(&found, 1, "name", arguments[2], 1, 20.0) < 1) {
        fprintf(stderr, "no stream called %s\n", arguments[2]);
        return 1;
    }
    void *inlet = ((create_inlet)function("lsl_create_inlet"))(found, 360, 0, 0);
    int error = 0;
    ((open_stream)function("lsl_open_stream"))(inlet, 10.0, &error);
    pull take = (pull)function("lsl_pull_sample_f");
    push give = (push)function("lsl_push_sample_ftp");
    fprintf(stderr, "listening\n");
    float sample[CHANNELS];
    while (!error) {
        double time = take(inlet, sample, CHANNELS, 1.0, &error);
        if (time != 0.0)
            give(outlet, sample, time, 1);
    }
    return 0;
}

/* A wall clock that is off by the seconds in /data/clock, read anew each second; other clocks go as they do.
   By system calls alone: a library that looks for the real functions first hangs in the server's allocator. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t off(void) {
    static time_t read_at = -1, seconds;
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    if (now.tv_sec != read_at) {
        char text[32] = "";
        int file = open("/data/clock", O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
            close(file);
        }
        read_at = now.tv_sec;
        seconds = strtol(text, NULL, 10);
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += off();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *also) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (also) *also = exact.tv_sec;
    return exact.tv_sec;
}

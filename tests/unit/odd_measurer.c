/* A measurer that errs now and then: it hands requests to kumiko_measurer, and its answers back but for those that the name
 * under which it is called says otherwise. Tests make a link of that name.
 *   first_too_fast     the first run took a thousandth of its time
 *   hangs_at_N         the Nth run of this process does not end; the file hangs_at_N.hangs says that it has come to that
 *   anchor_wrong       the first time that a candidate is timed beside the anchor, that is wrong; then none is timed beside
 *                      any other than what was timed alone since, loaded anew
 *   anchor_crashes     likewise it ends the process
 * and when several are compared, with the first of them among these:
 *   wrong_late         the first is wrong
 *   crashes_late       the first ends the process
 *   hangs_late         the first does not end
 *   slow_late          none ends soon: calls go on */
#include "autotune/measurer/protocol.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Who closes its end, as by dying, ends both. */
static void transfer(int socket, void *data, size_t bytes, int sends) {
    for (char *p = data; bytes > 0;) {
        const ssize_t n = sends ? send(socket, p, bytes, MSG_NOSIGNAL) : recv(socket, p, bytes, 0);
        if (n <= 0) exit(0);
        p += n;
        bytes -= (size_t)n;
    }
}

/* What the page says of a machine that is far slower than it was. */
static void crawl(measurer_page *page, uint32_t count) {
    for (uint32_t i = 0;; i++) {
        page->running = i % count;
        page->calls++;
        usleep(10000);
    }
}

static void hang(const char *path) {
    char name[4096];
    snprintf(name, sizeof name, "%s.hangs", path);
    FILE *file = fopen(name, "w");
    if (file) fclose(file);
    for (;;) pause();
}

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    int pair[2], runs = 0, pairs = 0, hangs_at = 0;
    sscanf(name, "hangs_at_%d", &hangs_at);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 4 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return 2;
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(pair[1], MEASURER_SOCKET);
        execv(KUMIKO_MEASURER, argv);
        _exit(3);
    }
    close(pair[1]);
    char *loaded = NULL, *alone = NULL; /* the object in slot 0, and the one that was timed alone */
    uint64_t loaded_bytes = 0, alone_bytes = 0;
    int anchored = 1; /* by what was timed alone, after a wrong one */
    measurer_reply reply;
    transfer(pair[0], &reply, sizeof reply, 0); /* hello */
    transfer(MEASURER_SOCKET, &reply, sizeof reply, 1);
    for (measurer_request request;;) {
        transfer(MEASURER_SOCKET, &request, sizeof request, 0);
        transfer(pair[0], &request, sizeof request, 1);
        if (request.command == MEASURER_LOAD) {
            char *object = malloc(request.object_bytes + 1);
            transfer(MEASURER_SOCKET, object, request.object_bytes, 0);
            transfer(pair[0], object, request.object_bytes, 1);
            if (request.slots[0] == 0) {
                if (loaded != alone) free(loaded);
                loaded = object, loaded_bytes = request.object_bytes;
            } else {
                anchored |= alone && alone_bytes == request.object_bytes && !memcmp(alone, object, alone_bytes);
                free(object);
            }
        } else {
            if (request.count == 1 && alone != loaded) {
                free(alone);
                alone = loaded, alone_bytes = loaded_bytes;
            }
            if (++runs == hangs_at) hang(argv[0]);
        }
        transfer(pair[0], &reply, sizeof reply, 0);
        const int beside = request.command == MEASURER_RUN && request.paired && ++pairs == 1;
        if (beside && !strcmp(name, "anchor_wrong")) {
            reply.status = MEASURER_WRONG, reply.slot = request.slots[1];
            strcpy(reply.text, "wrong now and then");
            anchored = 0;
        } else if (request.command == MEASURER_RUN && request.paired && !anchored) {
            reply.status = MEASURER_WRONG, reply.slot = 0;
            strcpy(reply.text, "timed beside what was wrong");
        }
        if (beside && !strcmp(name, "anchor_crashes")) {
            measurer_page *page = mmap(NULL, sizeof *page, PROT_WRITE, MAP_SHARED, MEASURER_PAGE, 0);
            page->running = request.slots[1];
            raise(SIGSEGV);
        }
        const int late = request.command == MEASURER_RUN && request.count > 2 && request.slots[0] == 0;
        if (late && !strcmp(name, "wrong_late")) {
            reply.status = MEASURER_WRONG, reply.slot = 0;
            strcpy(reply.text, "wrong now and then");
        }
        if (late && (!strcmp(name, "crashes_late") || !strcmp(name, "hangs_late") || !strcmp(name, "slow_late"))) {
            measurer_page *page = mmap(NULL, sizeof *page, PROT_WRITE, MAP_SHARED, MEASURER_PAGE, 0);
            if (!strcmp(name, "slow_late")) crawl(page, request.count);
            page->running = 0;
            page->calls++;
            if (!strcmp(name, "crashes_late")) raise(SIGSEGV);
            hang(argv[0]);
        }
        if (request.command == MEASURER_RUN && runs == 1 && !strcmp(name, "first_too_fast"))
            reply.times[0].least /= 1000, reply.times[0].median /= 1000;
        transfer(MEASURER_SOCKET, &reply, sizeof reply, 1);
    }
}

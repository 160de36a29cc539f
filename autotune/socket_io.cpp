#include "autotune/socket_io.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>

namespace kumiko {

namespace {

constexpr double look_for_over = 0.05; // seconds

template<typename F>
Io transfer(int socket, short events, size_t bytes, const Stopwatch &watch, double timeout,
            const std::function<bool()> &over, F step) {
    while (bytes > 0) {
        const double left = timeout - watch.seconds();
        if (over && over()) return Io::Over;
        if (left <= 0) return Io::TimedOut;
        pollfd p{socket, events, 0};
        const int ready = poll(&p, 1, static_cast<int>(std::min(left, over ? look_for_over : 1e6) * 1e3) + 1);
        if (ready < 0 && errno == EINTR) continue;
        if (ready == 0) continue;
        const ssize_t n = step(bytes);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return Io::Closed;
        bytes -= static_cast<size_t>(n);
    }
    return Io::Done;
}

} // namespace

Io send_all(int socket, const void *data, size_t bytes, const Stopwatch &watch, double timeout,
            const std::function<bool()> &over) {
    const char *p = static_cast<const char *>(data);
    return transfer(socket, POLLOUT, bytes, watch, timeout, over, [&](size_t left) {
        const ssize_t n = send(socket, p, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) p += n;
        return n;
    });
}

Io receive_all(int socket, void *data, size_t bytes, const Stopwatch &watch, double timeout,
               const std::function<bool()> &over) {
    char *p = static_cast<char *>(data);
    return transfer(socket, POLLIN, bytes, watch, timeout, over, [&](size_t left) {
        const ssize_t n = recv(socket, p, left, MSG_DONTWAIT);
        if (n > 0) p += n;
        return n;
    });
}

} // namespace kumiko

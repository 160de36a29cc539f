#include "autotune/redis.h"

#include "support/duration.h"

#include <hiredis/hiredis.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <thread>

namespace kumiko {

namespace {

// No command blocks for more than a second.
constexpr timeval connect_timeout{5, 0}, answer_timeout{20, 0};

// hiredis uses write(), which raises SIGPIPE if the server has closed the connection.
class NoPipeSignal {
public:
    NoPipeSignal() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    ~NoPipeSignal() {
        const timespec none{0, 0};
        if (!was_pending_) {
            while (sigtimedwait(&pipe_, nullptr, &none) < 0 && errno == EINTR) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

private:
    sigset_t pipe_, before_;
    bool was_pending_;
};

std::string percent_decoded(const std::string &text) {
    std::string result;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] == '%' && i + 2 < text.size() && std::isxdigit(text[i + 1]) && std::isxdigit(text[i + 2])) {
            result += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
            i += 2;
        } else {
            result += text[i];
        }
    }
    return result;
}

int number_of(const std::string &digits, int most, const std::string &what, const std::string &url) {
    if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos ||
        std::stoi(digits) > most)
        throw UserError("\"" + digits + "\" is no " + what + " of a Redis server, in \"" + url +
                        "\"; legal is a number up to " + std::to_string(most));
    return std::stoi(digits);
}

RedisReply copied(const redisReply &r) {
    RedisReply result;
    result.null = r.type == REDIS_REPLY_NIL;
    result.integer = r.type == REDIS_REPLY_INTEGER ? r.integer : 0;
    if (r.type == REDIS_REPLY_STRING || r.type == REDIS_REPLY_STATUS) result.text.assign(r.str, r.len);
    if (r.type == REDIS_REPLY_ERROR) result.error.assign(r.str, r.len);
    for (size_t i = 0; r.type == REDIS_REPLY_ARRAY && i < r.elements; i++)
        result.elements.push_back(copied(*r.element[i]));
    return result;
}

} // namespace

RedisAddress RedisAddress::parse(const std::string &url) {
    RedisAddress a;
    if (url.starts_with("rediss://"))
        throw Unsupported("TLS to a Redis server: " + url + "; use redis:// through a tunnel (ssh -L)");
    if (url.starts_with("unix://")) {
        a.socket = url.substr(7);
        if (const size_t query = a.socket.find("?db="); query != std::string::npos) {
            a.database = number_of(a.socket.substr(query + 4), 1 << 20, "database", url);
            a.socket.resize(query);
        }
        if (!a.socket.starts_with("/"))
            throw UserError("\"" + url + "\" does not name a socket by its full path, as unix:///run/redis.sock");
        return a;
    }
    if (!url.starts_with("redis://"))
        throw UserError("\"" + url + "\" is not the address of a Redis server; legal are redis://host:port/database " +
                        "and unix:///path/of/socket");
    std::string rest = url.substr(8);
    if (const size_t slash = rest.find('/'); slash != std::string::npos) {
        if (slash + 1 < rest.size()) a.database = number_of(rest.substr(slash + 1), 1 << 20, "database", url);
        rest.resize(slash);
    }
    if (const size_t at = rest.rfind('@'); at != std::string::npos) {
        const std::string who = rest.substr(0, at);
        rest = rest.substr(at + 1);
        const size_t colon = who.find(':');
        a.user = percent_decoded(who.substr(0, colon));
        if (colon != std::string::npos) a.password = percent_decoded(who.substr(colon + 1));
    }
    const size_t colon = rest.starts_with("[") ? rest.find(':', rest.find(']')) : rest.find(':');
    if (colon != std::string::npos) {
        a.port = number_of(rest.substr(colon + 1), 65535, "port", url);
        rest.resize(colon);
    }
    if (rest.starts_with("[") && rest.ends_with("]")) rest = rest.substr(1, rest.size() - 2);
    if (!rest.empty()) a.host = rest;
    return a;
}

std::string RedisAddress::text() const {
    if (!socket.empty()) return "unix://" + socket + (database ? "?db=" + std::to_string(database) : "");
    const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
    return "redis://" + name + ":" + std::to_string(port) + (database ? "/" + std::to_string(database) : "");
}

std::vector<std::string> RedisReply::texts() const {
    std::vector<std::string> all;
    for (const RedisReply &e : elements) all.push_back(e.text);
    return all;
}

void Redis::Free::operator()(redisContext *c) const { redisFree(c); }

Redis::Redis(const RedisAddress &address) : address_(address) { reconnect(); }
Redis::~Redis() = default;
Redis::Redis(Redis &&) noexcept = default;
Redis &Redis::operator=(Redis &&) noexcept = default;

void Redis::lost(const std::string &cause) {
    context_.reset();
    throw ServerLost("no Redis at " + address_.text() + ": " + cause + "; start one with " +
                     (address_.socket.empty() ? "redis-server --port " + std::to_string(address_.port)
                                              : "redis-server --unixsocket " + address_.socket));
}

void Redis::reconnect() {
    const NoPipeSignal guard;
    context_.reset(address_.socket.empty()
                       ? redisConnectWithTimeout(address_.host.c_str(), address_.port, connect_timeout)
                       : redisConnectUnixWithTimeout(address_.socket.c_str(), connect_timeout));
    if (!context_) lost("there is no memory for a connection");
    if (context_->err) lost(context_->errstr);
    redisSetTimeout(context_.get(), answer_timeout);
    // Not available for Unix sockets, where it would fail.
    if (address_.socket.empty()) redisEnableKeepAlive(context_.get());
    if (!address_.password.empty()) {
        if (address_.user.empty())
            command({"AUTH", address_.password});
        else
            command({"AUTH", address_.user, address_.password});
    }
    if (address_.database) command({"SELECT", std::to_string(address_.database)});
    command({"PING"}); // detects a missing password now
}

void Redis::append(const Command &words) {
    std::vector<const char *> texts;
    std::vector<size_t> lengths;
    for (const std::string &w : words) {
        texts.push_back(w.data());
        lengths.push_back(w.size());
    }
    if (!context_) lost("the connection is closed");
    if (redisAppendCommandArgv(context_.get(), static_cast<int>(texts.size()), texts.data(), lengths.data()) !=
        REDIS_OK)
        lost(context_->errstr);
}

RedisReply Redis::receive() {
    const NoPipeSignal guard;
    void *raw = nullptr;
    if (redisGetReply(context_.get(), &raw) != REDIS_OK) {
        const std::string cause = context_->errstr;
        lost(cause);
    }
    const std::unique_ptr<redisReply, void (*)(void *)> reply(static_cast<redisReply *>(raw), freeReplyObject);
    if (reply->type != REDIS_REPLY_ERROR) return copied(*reply);
    const std::string text(reply->str, reply->len);
    if (text.starts_with("LOADING")) lost("it is still reading its file");
    const bool old = text.starts_with("ERR unknown command");
    throw UserError("the Redis at " + address_.text() + " refuses a command: " + text +
                    (old ? "; Redis 6.2 or newer is needed" : ""));
}

RedisReply Redis::command(const Command &words) {
    append(words);
    return receive();
}

std::vector<RedisReply> Redis::transaction(const std::vector<Command> &commands) {
    append({"MULTI"});
    for (const Command &c : commands) append(c);
    append({"EXEC"});
    // Reads all replies: an error must not leave later replies in the connection.
    std::string refused;
    RedisReply last;
    for (size_t i = 0; i < commands.size() + 2; i++) {
        try {
            last = receive();
        } catch (const ServerLost &) {
            throw;
        } catch (const UserError &e) {
            if (refused.empty()) refused = e.what();
        }
    }
    if (!refused.empty()) throw UserError(refused);
    for (size_t i = 0; i < last.elements.size(); i++) {
        if (const std::string &error = last.elements[i].error; !error.empty())
            throw UserError("the Redis at " + address_.text() + " refuses " + commands.at(i).at(0) + " of " +
                            (commands[i].size() > 1 ? commands[i][1] : "nothing") + ": " + error);
    }
    return last.elements;
}

void Redis::reconnect(double seconds, const std::function<bool()> &stop) {
    const Stopwatch watch;
    while (true) {
        try {
            return reconnect();
        } catch (const ServerLost &) {
            if (watch.seconds() >= seconds || stop()) throw;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(250));
    }
}

} // namespace kumiko

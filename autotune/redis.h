// A connection to a Redis server through hiredis. Not thread-safe.
#pragma once

#include "support/error.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct redisContext;
struct redisReply;

namespace kumiko {

struct RedisAddress {
    std::string host = "localhost";
    int port = 6379;
    std::string socket; // path of a Unix socket, instead of host and port
    std::string user, password;
    int database = 0;

    // redis://[[user]:password@]host[:port][/database], or unix:///path/of/socket[?db=database].
    // Throws UserError if malformed, Unsupported for rediss:// (TLS).
    static RedisAddress parse(const std::string &url);
    std::string text() const; // as a URL, without the password
};

// The server cannot be reached or stopped responding.
class ServerLost : public UserError {
public:
    using UserError::UserError;
};

struct RedisReply {
    bool null = false;
    int64_t integer = 0;
    std::string text;
    std::string error; // of a single command in a transaction
    std::vector<RedisReply> elements;

    std::vector<std::string> texts() const; // the texts of the elements
};

class Redis {
public:
    using Command = std::vector<std::string>;

    // Connects. Throws ServerLost if there is no server, and UserError if it denies access.
    explicit Redis(const RedisAddress &address);
    ~Redis();
    Redis(Redis &&) noexcept;
    Redis &operator=(Redis &&) noexcept;

    // Throws ServerLost, after which only reconnect() is valid, and UserError if the server rejects
    // the command.
    RedisReply command(const Command &words);
    // Runs all commands atomically and returns their replies. Throws as command() does. If a
    // command fails during execution, for example on a key of another type, the others are executed
    // nevertheless.
    std::vector<RedisReply> transaction(const std::vector<Command> &commands);
    // Retries for up to `seconds`, or until `stop` returns true, then throws ServerLost.
    void reconnect(double seconds, const std::function<bool()> &stop);
    void reconnect(); // tries once

    const RedisAddress &address() const { return address_; }

private:
    void append(const Command &words);
    RedisReply receive();
    [[noreturn]] void lost(const std::string &cause);

    struct Free {
        void operator()(redisContext *c) const;
    };
    RedisAddress address_;
    std::unique_ptr<redisContext, Free> context_;
};

} // namespace kumiko

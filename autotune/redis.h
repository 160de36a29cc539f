// A connection to a Redis server, through the library hiredis. One thread at a time.
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
    std::string socket; // the path of a Unix socket, in place of host and port
    std::string user, password;
    int database = 0;

    // redis://[[user]:password@]host[:port][/database], or unix:///path/of/socket[?db=database]. Throws UserError, and
    // Unsupported for rediss:// (TLS).
    static RedisAddress parse(const std::string &url);
    std::string text() const; // as a URL, without the password
};

// The server cannot be reached, or does not answer any more.
class ServerLost : public UserError {
public:
    using UserError::UserError;
};

struct RedisReply {
    bool null = false;
    int64_t integer = 0;
    std::string text;
    std::string error; // of a command within a transaction, which refuses it alone
    std::vector<RedisReply> elements;

    std::vector<std::string> texts() const; // of the elements
};

class Redis {
public:
    using Command = std::vector<std::string>;

    // Connects. Throws ServerLost when there is no server, and UserError when it does not let this program in.
    explicit Redis(const RedisAddress &address);
    ~Redis();
    Redis(Redis &&) noexcept;
    Redis &operator=(Redis &&) noexcept;

    // Throws ServerLost, after which only reconnect() is of use, and UserError when the server refuses the command.
    RedisReply command(const Command &words);
    // All of them, with nobody's commands in between; the replies of each. Throws as command(); where the server refuses one after it
    // has begun, as of a key that holds something else, the others are done nevertheless.
    std::vector<RedisReply> transaction(const std::vector<Command> &commands);
    // Tries again and again for some seconds, or until `stop` says so, then throws ServerLost.
    void reconnect(double seconds, const std::function<bool()> &stop);
    void reconnect(); // once

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

// Relays TCP connections to a port of this machine and delays every byte by half a round trip in each direction.
//   delay_proxy TARGET_PORT RTT_MS      prints `listening on 127.0.0.1:PORT`, runs until it is killed
//
// One thread, epoll. The TCP handshake is delayed as well: bytes of a new connection are taken up one round trip after it was
// accepted. A direction holds at most 64 MiB under way, so that the delay and not the proxy limits up to 10 Gbit/s at 50 ms.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t queue_bytes = 64u << 20;
constexpr std::size_t read_bytes = 256u << 10;

struct Segment {
    Clock::time_point due;
    std::vector<char> bytes;
    std::size_t sent = 0;
};

struct Direction {
    int from = -1;
    int to = -1;
    std::deque<Segment> queue;
    std::size_t queued = 0;
    bool source_ended = false;
    Clock::time_point end_due;
    bool end_passed_on = false;
    bool blocked = false;
};

struct Connection {
    int client = -1;
    int target = -1;
    Clock::time_point opens;
    bool open = false;
    bool broken = false;
    Direction up;
    Direction down;
};

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "delay_proxy: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

class Proxy {
public:
    Proxy(int target_port, std::chrono::microseconds rtt) : target_port_(target_port), rtt_(rtt) {}

    void listen_on_free_port() {
        listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        sockaddr_in address = loopback(0);
        socklen_t size = sizeof address;
        if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 1024) != 0) fail("listen");
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        std::printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
        std::fflush(stdout);
        epoll_ = epoll_create1(EPOLL_CLOEXEC);
        epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
        if (epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &event) != 0) fail("epoll");
    }

    [[noreturn]] void run() {
        std::vector<epoll_event> events(256);
        for (;;) {
            const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), milliseconds_to_next());
            for (int index = 0; index < count; ++index)
                if (events[static_cast<std::size_t>(index)].data.ptr == nullptr) accept_all();
            serve_all();
        }
    }

private:
    void accept_all() {
        for (;;) {
            const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (client < 0) return;
            auto connection = std::make_unique<Connection>();
            connection->client = client;
            connection->opens = Clock::now() + rtt_;
            connections_.push_back(std::move(connection));
        }
    }

    void open(Connection& connection) {
        connection.target = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const sockaddr_in address = loopback(target_port_);
        if (connect(connection.target, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            connection.broken = true;
            return;
        }
        connection.up.from = connection.down.to = connection.client;
        connection.up.to = connection.down.from = connection.target;
        connection.open = true;
        for (const int end : {connection.client, connection.target}) {
            const int on = 1;
            setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            // Edge-triggered: every turn reads and writes each end until it would block.
            epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.ptr = &connection}};
            if (epoll_ctl(epoll_, EPOLL_CTL_ADD, end, &event) != 0) fail("epoll");
        }
    }

    void serve_all() {
        const auto now = Clock::now();
        for (auto at = connections_.begin(); at != connections_.end();) {
            Connection& connection = **at;
            if (!connection.open && !connection.broken && now >= connection.opens) open(connection);
            if (connection.open) {
                relay(connection, connection.up);
                relay(connection, connection.down);
            }
            const bool ended = connection.open && connection.up.end_passed_on && connection.down.end_passed_on;
            if (connection.broken || ended) {
                drop(connection);
                at = connections_.erase(at);
            } else {
                ++at;
            }
        }
    }

    void relay(Connection& connection, Direction& direction) {
        read_some(connection, direction);
        write_due(connection, direction);
        if (direction.source_ended && !direction.end_passed_on && direction.queue.empty() && Clock::now() >= direction.end_due) {
            shutdown(direction.to, SHUT_WR);
            direction.end_passed_on = true;
        }
    }

    void read_some(Connection& connection, Direction& direction) {
        while (!direction.source_ended && direction.queued < queue_bytes) {
            const ssize_t got = recv(direction.from, scratch_.data(), scratch_.size(), MSG_DONTWAIT);
            const auto due = Clock::now() + rtt_ / 2;
            if (got > 0) {
                direction.queue.push_back({due, {scratch_.data(), scratch_.data() + got}});
                direction.queued += static_cast<std::size_t>(got);
            } else if (got == 0) {
                direction.source_ended = true;
                direction.end_due = due;
            } else {
                if (errno != EAGAIN && errno != EINTR) connection.broken = true;
                return;
            }
        }
    }

    void write_due(Connection& connection, Direction& direction) {
        direction.blocked = false;
        while (!direction.queue.empty() && Clock::now() >= direction.queue.front().due) {
            Segment& segment = direction.queue.front();
            const std::size_t left = segment.bytes.size() - segment.sent;
            const ssize_t sent = send(direction.to, segment.bytes.data() + segment.sent, left, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent < 0) {
                direction.blocked = errno == EAGAIN;
                if (errno != EAGAIN && errno != EINTR) connection.broken = true;
                return;
            }
            segment.sent += static_cast<std::size_t>(sent);
            direction.queued -= static_cast<std::size_t>(sent);
            if (segment.sent == segment.bytes.size()) direction.queue.pop_front();
        }
    }

    void drop(Connection& connection) {
        // A broken end is passed on as a reset, an orderly one was passed on by shutdown before.
        const linger reset{.l_onoff = connection.broken ? 1 : 0, .l_linger = 0};
        for (const int end : {connection.client, connection.target}) {
            if (end < 0) continue;
            if (connection.broken) setsockopt(end, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            close(end);
        }
    }

    int milliseconds_to_next() const {
        auto next = Clock::time_point::max();
        for (const auto& connection : connections_) {
            if (!connection->open) next = std::min(next, connection->opens);
            for (const Direction* direction : {&connection->up, &connection->down}) {
                if (!direction->queue.empty() && !direction->blocked) next = std::min(next, direction->queue.front().due);
                if (direction->queue.empty() && direction->source_ended && !direction->end_passed_on)
                    next = std::min(next, direction->end_due);
            }
        }
        if (next == Clock::time_point::max()) return -1;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
        return static_cast<int>(std::max<std::int64_t>(left, 0));
    }

    int target_port_;
    std::chrono::microseconds rtt_;
    int listener_ = -1;
    int epoll_ = -1;
    std::list<std::unique_ptr<Connection>> connections_;
    std::vector<char> scratch_ = std::vector<char>(read_bytes);
};

}  // namespace

int main(int count, char** words) {
    if (count != 3) {
        std::fprintf(stderr, "usage: delay_proxy TARGET_PORT RTT_MS\n");
        return 2;
    }
    std::signal(SIGPIPE, SIG_IGN);
    Proxy proxy(std::atoi(words[1]), std::chrono::microseconds(static_cast<std::int64_t>(std::atof(words[2]) * 1000)));
    proxy.listen_on_free_port();
    proxy.run();
}

// The floor that edt is compared with: raw TCP from file to file, sendfile on one side, recv and pwrite on the other.
// No digests, no renames, no resume. One range of a file after another is taken by N streams.
//   rawtcp receive DIRECTORY STREAMS          prints its port, ends when all streams have ended
//   rawtcp send PORT STREAMS FILE...          ends when the receiver has confirmed every stream

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t range_bytes = 64u << 20;
constexpr std::size_t buffer_bytes = 256u << 10;

struct Header {
    char name[240];
    std::uint64_t offset;
    std::uint64_t length;
};

struct Range {
    std::string path;
    std::uint64_t offset;
    std::uint64_t length;
};

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "rawtcp: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

std::string base_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

void send_range(int stream, const Range& range) {
    Header header{};
    std::strncpy(header.name, base_name(range.path).c_str(), sizeof header.name - 1);
    header.offset = range.offset;
    header.length = range.length;
    if (send(stream, &header, sizeof header, MSG_MORE) != static_cast<ssize_t>(sizeof header)) fail("send");
    const int file = open(range.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) fail("open");
    auto offset = static_cast<off_t>(range.offset);
    for (std::uint64_t left = range.length; left > 0;) {
        const ssize_t sent = sendfile(stream, file, &offset, left);
        if (sent <= 0) fail("sendfile");
        left -= static_cast<std::uint64_t>(sent);
    }
    close(file);
}

void sender(int port, const std::vector<Range>& ranges, std::atomic<std::size_t>& next) {
    const int stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port);
    if (connect(stream, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("connect");
    const int on = 1;
    setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (std::size_t index = next++; index < ranges.size(); index = next++) send_range(stream, ranges[index]);
    shutdown(stream, SHUT_WR);
    char confirmed = 0;
    if (recv(stream, &confirmed, 1, 0) != 1) fail("the receiver did not confirm");
    close(stream);
}

bool receive_all(int stream, void* into, std::size_t length) {
    auto* bytes = static_cast<char*>(into);
    for (std::size_t done = 0; done < length;) {
        const ssize_t got = recv(stream, bytes + done, length - done, 0);
        if (got < 0) fail("recv");
        if (got == 0) return false;
        done += static_cast<std::size_t>(got);
    }
    return true;
}

void write_all(int file, const char* bytes, std::size_t length, std::uint64_t offset) {
    while (length > 0) {
        const ssize_t written = pwrite(file, bytes, length, static_cast<off_t>(offset));
        if (written <= 0) fail("pwrite");
        bytes += written;
        length -= static_cast<std::size_t>(written);
        offset += static_cast<std::uint64_t>(written);
    }
}

void receiver(int stream, const std::string& directory) {
    std::vector<char> buffer(buffer_bytes);
    for (Header header{}; receive_all(stream, &header, sizeof header);) {
        const std::string path = directory + "/" + header.name;
        const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (file < 0) fail("open");
        for (std::uint64_t done = 0; done < header.length;) {
            const std::size_t want = std::min<std::uint64_t>(buffer.size(), header.length - done);
            const ssize_t got = recv(stream, buffer.data(), want, 0);
            if (got <= 0) fail("recv");
            write_all(file, buffer.data(), static_cast<std::size_t>(got), header.offset + done);
            done += static_cast<std::uint64_t>(got);
        }
        close(file);
    }
    const char confirmed = 1;
    if (send(stream, &confirmed, 1, MSG_NOSIGNAL) != 1) fail("confirm");
    close(stream);
}

int run_receiver(const std::string& directory, int streams) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener, 128) != 0) fail("listen");
    getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    std::printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    std::vector<std::thread> threads;
    for (int index = 0; index < streams; ++index) {
        const int stream = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (stream < 0) fail("accept");
        threads.emplace_back(receiver, stream, directory);
    }
    for (auto& thread : threads) thread.join();
    return 0;
}

int run_sender(int port, int streams, const std::vector<std::string>& files) {
    std::vector<Range> ranges;
    for (const auto& path : files) {
        struct stat status{};
        if (stat(path.c_str(), &status) != 0) fail(path.c_str());
        const auto size = static_cast<std::uint64_t>(status.st_size);
        for (std::uint64_t offset = 0; offset < size; offset += range_bytes)
            ranges.push_back({path, offset, std::min(range_bytes, size - offset)});
    }
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> threads;
    for (int index = 0; index < streams; ++index) threads.emplace_back([&] { sender(port, ranges, next); });
    for (auto& thread : threads) thread.join();
    return 0;
}

}  // namespace

int main(int count, char** words) {
    const std::vector<std::string> arguments(words + 1, words + count);
    if (arguments.size() == 3 && arguments[0] == "receive") return run_receiver(arguments[1], std::atoi(words[3]));
    if (arguments.size() >= 4 && arguments[0] == "send")
        return run_sender(std::atoi(words[2]), std::atoi(words[3]), {arguments.begin() + 3, arguments.end()});
    std::fprintf(stderr, "usage: rawtcp receive DIRECTORY STREAMS | send PORT STREAMS FILE...\n");
    return 2;
}

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A network of hosts with a bandwidth and a delay, for machines whose kernel has no `netem`: makes a TAP device for
/// each host, and carries frames between them, each no sooner than a link of that bandwidth to a switch, the delay and
/// a link from the switch would have. `hosts` moves the devices to namespaces, and ends this program.
///
///     network <bits a second> <microseconds of delay> <seconds after which it ends> <name of a device>...
///
/// Host i has the address 02:00:00:00:00:i, from 1. Prints "ready" once the devices are there.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <queue>
#include <utility>
#include <vector>

namespace {

using Nanoseconds = std::int64_t;
constexpr Nanoseconds second = 1'000'000'000;
// Before each frame: a virtio_net_hdr, whose header C++ cannot include. Frames are carried as they are.
constexpr std::size_t offload_header = 10;
constexpr std::size_t largest = offload_header + 65536 + 64;  // many segments of TCP are one frame here
constexpr std::size_t most_queued = 20000;

Nanoseconds now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * second + time.tv_nsec;
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(EXIT_FAILURE);
}

int open_device(const char* name) {
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("/dev/net/tun");
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(device, TUNSETIFF, &request) < 0) fail(name);
  if (ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) < 0) fail("TUNSETOFFLOAD");
  return device;
}

struct Frame {
  Nanoseconds due;
  std::uint64_t number;
  std::size_t to;
  std::vector<char> bytes;
  bool operator<(const Frame& other) const {  // the first to go is the greatest
    return std::pair(due, number) > std::pair(other.due, other.number);
  }
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 6) {
    std::fprintf(stderr, "usage: network <bits a second> <microseconds> <seconds> <device> <device>...\n");
    return EXIT_FAILURE;
  }
  const double nanoseconds_a_byte = 8e9 / std::atof(arguments[1]);
  const Nanoseconds delay = std::atoll(arguments[2]) * 1000;
  const Nanoseconds end = now() + std::atoll(arguments[3]) * second;
  prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds
  std::vector<pollfd> ports;
  for (int i = 4; i < count; ++i) ports.push_back({open_device(arguments[i]), POLLIN, 0});
  std::vector<Nanoseconds> sent_until(ports.size()), received_until(ports.size());
  std::priority_queue<Frame> queue;
  std::uint64_t number = 0;
  std::vector<char> buffer(largest);
  std::puts("ready");
  std::fflush(stdout);

  while (now() < end) {
    while (!queue.empty() && queue.top().due <= now()) {
      const Frame& frame = queue.top();
      // What a host does not take is lost, as on a wire.
      static_cast<void>(!write(ports[frame.to].fd, frame.bytes.data(), frame.bytes.size()));
      queue.pop();
    }
    const Nanoseconds wait = queue.empty() ? second / 10 : std::max<Nanoseconds>(queue.top().due - now(), 0);
    const timespec timeout{wait / second, wait % second};
    const bool is_full = queue.size() > most_queued;
    if (ppoll(ports.data(), is_full ? 0 : ports.size(), &timeout, nullptr) <= 0 || is_full) continue;
    for (std::size_t from = 0; from < ports.size(); ++from) {
      if ((ports[from].revents & POLLIN) == 0) continue;
      const ssize_t bytes = read(ports[from].fd, buffer.data(), buffer.size());
      if (bytes < static_cast<ssize_t>(offload_header) + 14) continue;
      const char* const address = buffer.data() + offload_header;
      const auto takes = static_cast<Nanoseconds>(static_cast<double>(bytes - static_cast<ssize_t>(offload_header)) *
                                                  nanoseconds_a_byte);
      sent_until[from] = std::max(now(), sent_until[from]) + takes;
      const auto to_one = static_cast<std::size_t>(static_cast<unsigned char>(address[5]));
      const bool is_to_all = (address[0] & 1) != 0;
      for (std::size_t to = 0; to < ports.size(); ++to) {
        if (to == from || (!is_to_all && to + 1 != to_one)) continue;
        received_until[to] = std::max(sent_until[from] + delay, received_until[to] + takes);
        queue.push({received_until[to], number++, to, std::vector<char>(buffer.data(), buffer.data() + bytes)});
      }
    }
  }
}

"""A router of netns.Homes that forwards ports for hosts of its home that ask by NAT-PMP (RFC 6886)."""

import select
import socket
import struct
import threading

PORT = 5351
ADDRESS, UDP, TCP = 0, 1, 2
SUCCESS, UNSUPPORTED = 0, 5


class NatPmp:
    """On the innermost router of a home. `lease_s`: the most that it grants."""

    def __init__(self, network, home, lease_s=1200):
        self.space, self.lease_s = network.routers[home][-1], lease_s
        self.outside = f"100.64.{home}.2" if network.kind[home] == "double" else network.outside(home)
        self.forwarded, self.asked, self.problem = {}, [], None  # (protocol, host, port): port outside; (protocol, port, lease)
        self.space.run("nft", "-f", "-", said="add chain ip home mapped { type nat hook prerouting priority -101; }\n"
                       "add rule ip home way ct status dnat accept\n")
        with self.space.inside():
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((f"{network.net(home)}.1", PORT))
        self.end, self.ends = socket.socketpair()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        try:
            while self.end not in select.select([self.socket, self.end], [], [])[0]:
                said, host = self.socket.recvfrom(100)
                self.socket.sendto(self.answer(said, host[0]), host)
        except OSError as error:
            self.problem = error

    def answer(self, said, host):
        version, operation = said[:2]
        if version != 0 or (operation, len(said)) not in ((ADDRESS, 2), (UDP, 12), (TCP, 12)):
            return struct.pack(">BBHI", 0, 128 + operation % 128, UNSUPPORTED, 1)
        head = struct.pack(">BBHI", 0, 128 + operation, SUCCESS, 1)
        if operation == ADDRESS:
            return head + socket.inet_aton(self.outside)
        inside, outside, lease = struct.unpack(">HHI", said[4:])
        self.asked.append((operation, inside, lease))
        before = dict(self.forwarded)
        if lease == 0:
            self.forwarded.pop((operation, host, inside), None)
            outside = 0
        else:
            outside = self.forwarded.get((operation, host, inside)) or self.free(host, outside or inside)
            self.forwarded[operation, host, inside] = outside
        if self.forwarded != before:
            self.apply()
        return head + struct.pack(">HHI", inside, outside, min(lease, self.lease_s))

    def free(self, host, port):
        """The next port that no other host has."""
        others = {p for (_, other, _), p in self.forwarded.items() if other != host}
        while port in others:
            port += 1
        return port

    def apply(self):
        names = {UDP: "udp", TCP: "tcp"}
        rules = "".join(f"add rule ip home mapped iifname wan {names[protocol]} dport {outside} dnat to {host}:{inside}\n"
                        for (protocol, host, inside), outside in self.forwarded.items())
        self.space.run("nft", "-f", "-", said="flush chain ip home mapped\n" + rules)

    def close(self):
        self.ends.close()
        self.thread.join()
        self.end.close()
        self.socket.close()

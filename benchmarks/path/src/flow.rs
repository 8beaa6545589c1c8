//! Which flow a packet belongs to.

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The bit "more fragments" and the offset of a fragment, in the fourth pair of bytes.
const FRAGMENT: u16 = 0x3fff;

/// A flow: addresses, protocol and ports of an IPv4 packet. All that is not IPv4 is one flow together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address.
    pub source: u32,
    /// Destination address.
    pub destination: u32,
    /// Source port in the upper half, destination port in the lower; zero where the packet names none.
    pub ports: u32,
    /// Number of the protocol.
    pub protocol: u8,
}

impl FlowKey {
    /// Reads the flow of an IP packet; fragments count as packets without ports, so that those of one datagram stay together.
    pub fn of(packet: &[u8]) -> Self {
        if packet.len() < 20 || packet[0] >> 4 != 4 {
            return Self::default();
        }
        let word = |at: usize| packet.get(at..at + 4).map_or(0, |four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]));
        let protocol = packet[9];
        let fragment = u16::from_be_bytes([packet[6], packet[7]]) & FRAGMENT;
        let header = usize::from(packet[0] & 0x0f) * 4;
        let ports = if fragment == 0 && matches!(protocol, TCP | UDP) { word(header) } else { 0 };
        Self { source: word(12), destination: word(16), ports, protocol }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, fragment: u8) -> Vec<u8> {
        let mut packet = vec![0_u8; 40];
        packet[0] = 0x45;
        packet[6] = fragment;
        packet[9] = protocol;
        packet[12..20].copy_from_slice(&[198, 18, 0, 1, 198, 18, 0, 2]);
        packet[20..24].copy_from_slice(&[0x12, 0x34, 0x00, 0x50]);
        packet
    }

    #[test]
    fn tcp_and_udp_have_ports() {
        let expected = FlowKey { source: 0xc612_0001, destination: 0xc612_0002, ports: 0x1234_0050, protocol: TCP };
        assert_eq!(FlowKey::of(&packet(TCP, 0x40)), expected);
        assert_eq!(FlowKey::of(&packet(UDP, 0)), FlowKey { protocol: UDP, ..expected });
    }

    #[test]
    fn fragments_and_other_protocols_have_none() {
        assert_eq!(FlowKey::of(&packet(UDP, 0x20)).ports, 0);
        assert_eq!(FlowKey::of(&packet(1, 0)).ports, 0);
    }

    #[test]
    fn what_is_not_ipv4_is_one_flow() {
        let mut six = packet(TCP, 0);
        six[0] = 0x60;
        assert_eq!(FlowKey::of(&six), FlowKey::default());
        assert_eq!(FlowKey::of(&[0x45; 19]), FlowKey::default());
    }

    #[test]
    fn a_header_longer_than_the_packet_is_no_panic() {
        let mut short = packet(TCP, 0);
        short[0] = 0x4f;
        assert_eq!(FlowKey::of(&short[..21]).ports, 0);
    }
}

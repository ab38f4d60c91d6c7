//! What the whole node does: pressure and network.

use std::path::Path;

use super::cgroup::{KeptFile, new_buffer, read_pressure};
use crate::record::Sample;

/// The files of the node. Those of the network are of this process's network name space.
#[derive(Debug)]
pub(super) struct Node {
    cpu: KeptFile,
    memory: KeptFile,
    io: KeptFile,
    network: KeptFile,
    buffer: Vec<u8>,
}

/// Columns and the file that they come from.
const PRESSURE_COLUMNS: [&[&str]; 3] = [
    &["node_psi_cpu_some_us"],
    &["node_psi_mem_some_us", "node_psi_mem_full_us"],
    &["node_psi_io_some_us", "node_psi_io_full_us"],
];
const NETWORK_COLUMNS: &[&str] = &["node_net_rx_bytes", "node_net_tx_bytes"];

impl Node {
    /// `proc` looks like `/proc`.
    pub(super) fn new(proc: &Path) -> Self {
        let file = |name: &str| KeptFile::new(proc.join(name));
        Self {
            cpu: file("pressure/cpu"),
            memory: file("pressure/memory"),
            io: file("pressure/io"),
            network: file("net/dev"),
            buffer: new_buffer(),
        }
    }

    /// Fills in the columns of the node.
    pub(super) fn read(&mut self, sample: &mut Sample) {
        let buffer = &mut self.buffer;
        let [cpu, memory, io] = [&mut self.cpu, &mut self.memory, &mut self.io]
            .map(|file| file.read(buffer, read_pressure).unwrap_or_default());
        sample.node_psi_cpu_some_us = cpu.some_us;
        (sample.node_psi_mem_some_us, sample.node_psi_mem_full_us) =
            (memory.some_us, memory.full_us);
        (sample.node_psi_io_some_us, sample.node_psi_io_full_us) = (io.some_us, io.full_us);
        (sample.node_net_rx_bytes, sample.node_net_tx_bytes) =
            self.network.read(buffer, read_network).unzip();
    }

    /// Why columns do not exist: the kernel was built without them or does not keep them (`psi=1`).
    pub(super) fn why_missing(&self, column: &str) -> Option<String> {
        let files = [&self.cpu, &self.memory, &self.io];
        let groups = PRESSURE_COLUMNS
            .into_iter()
            .zip(files)
            .chain([(NETWORK_COLUMNS, &self.network)]);
        let (_, file) = groups
            .into_iter()
            .find(|(columns, _)| columns.contains(&column))?;
        let why = file.problem().map(str::to_owned);
        Some(why.unwrap_or_else(|| format!("{} does not have it", file.path().display())))
    }
}

/// Bytes received and sent over all interfaces but loopback. Two lines of heading, then
/// `eth0: RX-BYTES PACKETS ERRS DROP FIFO FRAME COMPRESSED MULTICAST TX-BYTES …` (`proc(5)`).
fn read_network(text: &str) -> Option<(u64, u64)> {
    let mut sums = None;
    for line in text.lines() {
        let Some((name, numbers)) = line.rsplit_once(':') else {
            continue;
        };
        let mut numbers = numbers.split_ascii_whitespace();
        let received: u64 = numbers.next()?.parse().ok()?;
        let sent: u64 = numbers.nth(7)?.parse().ok()?;
        let (all_received, all_sent): &mut (u64, u64) = sums.get_or_insert_default();
        if name.trim_ascii() != "lo" {
            *all_received = all_received.saturating_add(received);
            *all_sent = all_sent.saturating_add(sent);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_is_summed_without_loopback() {
        let text = "Inter-|   Receive                                 |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n    \
                    lo: 679 5 0 0 0 0 0 0 679 5 0 0 0 0 0 0\n  \
                    eth0:100 2 0 0 0 0 0 0 30 1 0 0 0 0 0 0\nib0:1: 7 2 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n";
        assert_eq!(read_network(text), Some((107, 35)));
        assert_eq!(read_network("Inter-| Receive\n"), None);
        assert_eq!(read_network("eth0: 1 2 3"), None);
    }

    #[test]
    fn this_node_has_a_network_and_nothing_has_a_reason() {
        let mut sample = Sample::default();
        Node::new(Path::new("/proc")).read(&mut sample);
        assert!(sample.node_net_rx_bytes.is_some(), "{sample:?}");
        let mut none = Node::new(Path::new("/nonexistent"));
        let mut nothing = Sample::default();
        none.read(&mut nothing);
        assert_eq!(nothing, Sample::default());
        let why = none.why_missing("node_psi_io_full_us").expect("a reason");
        assert!(why.contains("pressure/io"), "{why}");
        assert_eq!(none.why_missing("cpu_user_us"), None);
    }
}

//! A network namespace with one TUN device, made by the command `ip`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Error, PathOptions};

use super::tun::Tun;

/// Name of the device in each namespace.
const DEVICE: &str = "path0";

/// Packets that the system keeps for a courier that is late: half a second at 3 Gbit/s with packets of 9000 bytes.
const DEVICE_QUEUE: u32 = 20_000;

const HINT: &str = "run it as root on Linux, with `ip` of iproute2 installed";

/// A namespace that is removed when it is dropped.
pub(super) struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes an empty namespace.
    pub(super) fn make(name: &str) -> Result<Self, Error> {
        ip(&["netns", "add", name], "")?;
        Ok(Self { name: name.to_owned() })
    }

    /// Makes the TUN device in it.
    pub(super) fn tun(&self) -> Result<Tun, Error> {
        Tun::open(&Path::new("/run/netns").join(&self.name), DEVICE)
    }

    /// Gives the device its address and the route to the other end.
    pub(super) fn set_up(&self, own: &str, other: &str, options: &PathOptions) -> Result<(), Error> {
        let (mtu, congestion) = (options.mtu, options.congestion.name());
        // The congestion control is an attribute of the route because the system control for it is refused in some containers.
        let commands = format!(
            "link set lo up\n\
             link set {DEVICE} mtu {mtu} txqueuelen {DEVICE_QUEUE} addrgenmode none up\n\
             address add {own}/32 dev {DEVICE}\n\
             route add {other}/32 dev {DEVICE} src {own} congctl {congestion}\n"
        );
        self.quieten()?;
        ip(&["-n", &self.name, "-batch", "-"], &commands)
    }

    /// Asks TCP not to remember paths, so that no run teaches the next, and turns IPv6 off, so that no packet of its own is counted.
    /// Without effect where the system's controls cannot be written.
    fn quieten(&self) -> Result<(), Error> {
        super::tun::inside(&Path::new("/run/netns").join(&self.name), || {
            for control in ["ipv4/tcp_no_metrics_save", "ipv6/conf/all/disable_ipv6"] {
                let _ = fs::write(Path::new("/proc/sys/net").join(control), "1");
            }
            Ok(())
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Removes a namespace, if there is one of that name.
pub(super) fn remove(name: &str) {
    if Path::new("/run/netns").join(name).exists() {
        // Nothing can be done about one that stays; its device is gone with the process that held it.
        let _ = ip(&["netns", "delete", name], "");
    }
}

/// Runs `ip` with what it is to read on standard input.
fn ip(arguments: &[&str], input: &str) -> Result<(), Error> {
    let command = format!("ip {}", arguments.join(" "));
    let failed = |said: String| Error::Command { command: command.clone(), said, hint: HINT };
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    // Dropping the pipe ends the input; a command that does not read it has failed or does not need it.
    let _ = child.stdin.take().map(|mut pipe| pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())) }
}

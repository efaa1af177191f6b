//! Free ports on the loopback interface.

use std::{
    fs::File,
    io::Read as _,
    net::{Ipv4Addr, TcpListener},
};

use anyhow::{Context as _, Result, bail};

/// A port that is reserved until it is released for the program that will listen there.
pub struct Reserved(TcpListener);

impl Reserved {
    /// Chooses a port below the range of the kernel for the source ports of connections. Otherwise a
    /// connection of a first component could take a port that was released for a later one.
    pub fn any() -> Result<Self> {
        const FIRST: u16 = 20_000;
        const COUNT: u16 = 12_000;
        for _ in 0..100 {
            let mut random = [0; 2];
            random_bytes(&mut random)?;
            let port = FIRST + u16::from_ne_bytes(random) % COUNT;
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                return Ok(Self(listener));
            }
        }
        bail!("found no free port on 127.0.0.1 between {FIRST} and {}", FIRST + COUNT)
    }

    pub fn port(&self) -> Result<u16> {
        Ok(self.0.local_addr().context("read a reserved port")?.port())
    }

    pub fn release(self) {
        drop(self.0);
    }
}

/// Fills `bytes` from the system's source of randomness.
pub fn random_bytes(bytes: &mut [u8]) -> Result<()> {
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(bytes))
        .context("read /dev/urandom")
}

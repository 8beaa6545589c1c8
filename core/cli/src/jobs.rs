//! `edt jobs`: the transfers that run on this host, and what each of them may have.

use std::fmt::Write as _;
use std::io::Write as _;

use edt::broker::{Hosted, Sharer, hosted};
use edt::report::{human_bytes, human_count, human_rate};

use crate::args::JobsArgs;
use crate::exit::Exit;
use crate::terminal::{Stdout, printable, say};

pub(crate) fn run(args: &JobsArgs) -> anyhow::Result<Exit> {
    let hosted = hosted()?;
    let mut out = Stdout;
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&hosted)?)?;
        return Ok(Exit::Complete);
    }
    for transfer in &hosted.transfers {
        writeln!(out, "{}", line(transfer))?;
    }
    out.flush()?;
    say(&together(&hosted));
    Ok(Exit::Complete)
}

fn line(transfer: &Sharer) -> String {
    let server = transfer.server.as_deref().unwrap_or("-");
    let rate_share = transfer.rate_share.map_or_else(String::new, |share| format!(" of {}", human_rate(share)));
    printable(&format!(
        "{:>7}  {:>6} s  {server}  {} of {} streams  {}{rate_share}  {}",
        transfer.process,
        transfer.age_ms / 1000,
        transfer.streams,
        transfer.share,
        human_rate(transfer.rate),
        human_bytes(transfer.memory),
    ))
}

/// What all have, and what they may have.
fn together(hosted: &Hosted) -> String {
    let streams: u32 = hosted.transfers.iter().map(|transfer| u32::from(transfer.streams)).sum();
    let count = human_count(hosted.transfers.len() as u64, "transfer");
    let mut text = format!("{count}, {streams} of {} streams, at most {} in buffers", hosted.streams, human_bytes(hosted.memory));
    if let Some(rate) = hosted.rate {
        let _ = write!(text, ", at most {}", human_rate(rate));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer() -> Sharer {
        Sharer {
            process: 4711,
            age_ms: 61_500,
            server: Some("dtn_7632".to_owned()),
            share: 12,
            streams: 8,
            rate: 125e6,
            rate_share: None,
            memory: 96_000_000,
            weight: 2,
        }
    }

    #[test]
    fn a_line_tells_what_a_transfer_has_of_what_it_may_have() {
        assert_eq!(line(&transfer()), "   4711      61 s  dtn_7632  8 of 12 streams  1.0 Gbit/s  96.0 MB");
        let local = Sharer { server: None, rate_share: Some(250e6), ..transfer() };
        assert_eq!(line(&local), "   4711      61 s  -  8 of 12 streams  1.0 Gbit/s of 2.0 Gbit/s  96.0 MB");
    }

    #[test]
    fn the_last_line_tells_what_all_have() {
        let all = Hosted {
            directory: "x".into(),
            streams: 64,
            memory: 4_000_000_000,
            rate: Some(125e6),
            transfers: vec![transfer(), transfer()],
        };
        assert_eq!(together(&all), "2 transfers, 16 of 64 streams, at most 4.0 GB in buffers, at most 1.0 Gbit/s");
    }
}

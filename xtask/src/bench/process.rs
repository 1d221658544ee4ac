//! Runs a program that does not measure itself. Its wall time, CPU time and peak memory are read from `/proc`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Outcome;
use super::figures::Printed;

/// The interval at which the program is polled.
const INTERVAL: Duration = Duration::from_millis(2);
/// Clock ticks per second in `/proc/PID/stat`, the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Runs a program to its end. The figure `lines` is the number of lines that it printed.
pub(super) fn measured(command: &mut Command) -> Outcome<Printed> {
    let began = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
    let lines = std::thread::spawn(move || {
        let (mut lines, mut line) = (0_u64, Vec::new());
        while output.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            lines += 1;
            line.clear();
        }
        lines
    });
    let (cpu_seconds, peak_bytes) = usage(&child)?;
    let wall = began.elapsed().as_secs_f64();
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("{command:?} failed ({status})").into());
    }
    let lines = lines.join().map_err(|_| "cannot read the output")?;
    let figures = [
        ("wall", wall.to_string()),
        ("cpu", cpu_seconds.to_string()),
        ("peak", peak_bytes.to_string()),
        ("lines", lines.to_string()),
    ];
    Ok(figures.into_iter().map(|(figure, value)| (figure.to_owned(), value)).collect())
}

/// CPU seconds and peak bytes of a program, at its end. `/proc` keeps its CPU time until it is waited for.
fn usage(child: &Child) -> Outcome<(f64, u64)> {
    let process = format!("/proc/{}", child.id());
    let mut peak_bytes = 0;
    loop {
        let stat = std::fs::read_to_string(format!("{process}/stat"))?;
        let (state, cpu_seconds) = parse_stat(&stat).ok_or_else(|| format!("cannot read {process}/stat"))?;
        if state == "Z" {
            return Ok((cpu_seconds, peak_bytes));
        }
        let status = std::fs::read_to_string(format!("{process}/status"))?;
        peak_bytes = peak_bytes.max(parse_peak(&status).unwrap_or(0));
        std::thread::sleep(INTERVAL);
    }
}

/// State and CPU seconds. The name of the program is in parentheses and can contain anything.
fn parse_stat(stat: &str) -> Option<(&str, f64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let user: f64 = fields.nth(10)?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((state, (user + system) / TICKS_PER_SECOND))
}

fn parse_peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_measured_from_outside() {
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; printf 'a\\nb\\n'"]);
        let printed = measured(&mut command).unwrap();
        assert_eq!(printed["lines"], "2");
        assert!(printed["peak"].parse::<u64>().unwrap() > 100_000, "{printed:?}");
        assert!(printed["wall"].parse::<f64>().unwrap() > 0.0, "{printed:?}");
        assert!(measured(Command::new("sh").args(["-c", "exit 3"])).is_err());
    }

    #[test]
    fn proc_files_are_parsed() {
        let stat = "7 (a ) b) Z 1 7 7 0 -1 4 1 0 0 0 150 50 0 0 20 0 1 0 9";
        assert_eq!(parse_stat(stat), Some(("Z", 2.0)));
        assert_eq!(parse_peak("Name:\tx\nVmHWM:\t    1024 kB\n"), Some(1 << 20));
    }
}

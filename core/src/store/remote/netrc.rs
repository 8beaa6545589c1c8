//! Users and passwords of servers, from the file `.netrc` as curl, ftp and rclone read it.

use std::path::PathBuf;

/// User and password for a host, from the file that `NETRC` names or from `.netrc` in the home directory; only those of a user if one is
/// named.
pub fn credentials(host: &str, user: Option<&str>) -> Option<(String, String)> {
    let text = std::fs::read(file()?).ok()?;
    find(&String::from_utf8_lossy(&text), host, user)
}

fn file() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("NETRC").filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let home = etcetera::home_dir().ok()?;
    let usual = home.join(".netrc");
    Some(if cfg!(windows) && !usual.exists() { home.join("_netrc") } else { usual })
}

/// One `machine` or, without a name, the `default`.
#[derive(Default)]
struct Machine {
    name: Option<String>,
    login: Option<String>,
    password: Option<String>,
}

fn find(text: &str, host: &str, user: Option<&str>) -> Option<(String, String)> {
    let fits = |machine: &Machine| {
        let here = machine.name.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(host));
        here && user.is_none_or(|user| machine.login.as_deref() == Some(user))
    };
    let machine = parse(text).into_iter().find(fits)?;
    Some((machine.login?, machine.password.unwrap_or_default()))
}

fn parse(text: &str) -> Vec<Machine> {
    let mut machines: Vec<Machine> = Vec::new();
    let mut words = Words { rest: text };
    while let Some(word) = words.next() {
        match word.as_str() {
            "machine" => machines.push(Machine { name: Some(words.next().unwrap_or_default()), ..Machine::default() }),
            "default" => machines.push(Machine::default()),
            "login" => set(&mut machines, &mut words, |machine| &mut machine.login),
            "password" => set(&mut machines, &mut words, |machine| &mut machine.password),
            "account" => drop(words.next()),
            "macdef" => words.skip_macro(),
            comment if comment.starts_with('#') => words.skip_line(),
            _ => {}
        }
    }
    machines
}

fn set(machines: &mut [Machine], words: &mut Words<'_>, field: impl Fn(&mut Machine) -> &mut Option<String>) {
    let value = words.next();
    if let Some(machine) = machines.last_mut() {
        *field(machine) = value;
    }
}

struct Words<'a> {
    rest: &'a str,
}

impl Words<'_> {
    /// A word, or what stands between quotes, where a backslash takes the next character as it is.
    fn next(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        let Some(quoted) = self.rest.strip_prefix('"') else {
            let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
            let (word, rest) = self.rest.split_at(end);
            self.rest = rest;
            return (!word.is_empty()).then(|| word.to_owned());
        };
        let mut word = String::new();
        let mut characters = quoted.chars();
        while let Some(character) = characters.next() {
            match character {
                '"' => break,
                '\\' => word.extend(characters.next()),
                other => word.push(other),
            }
        }
        self.rest = characters.as_str();
        Some(word)
    }

    fn skip_line(&mut self) {
        self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
    }

    /// A macro ends at an empty line.
    fn skip_macro(&mut self) {
        self.skip_line();
        while !self.rest.is_empty() && !self.rest.lines().next().unwrap_or_default().trim().is_empty() {
            self.skip_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# mine\nmachine one.example login ann password \"a \\\"b\"\n\
        macdef init\n machine evil.example login x password y\n\nmachine two.example\n\tlogin bob\n\taccount a\n\tpassword #c\n\
        machine two.example login carol password d\ndefault login anonymous password me@example\n";

    fn found(host: &str, user: Option<&str>) -> Option<(String, String)> {
        find(FILE, host, user)
    }

    fn pair(user: &str, password: &str) -> (String, String) {
        (user.to_owned(), password.to_owned())
    }

    #[test]
    fn the_entry_of_a_host_is_found() {
        assert_eq!(found("One.example", None), Some(pair("ann", "a \"b")));
        assert_eq!(found("two.example", None), Some(pair("bob", "#c")));
        assert_eq!(found("two.example", Some("carol")), Some(pair("carol", "d")));
    }

    #[test]
    fn other_hosts_take_the_default_and_macros_are_skipped() {
        assert_eq!(found("evil.example", None), Some(pair("anonymous", "me@example")));
        assert_eq!(found("one.example", Some("dora")), None);
        assert_eq!(find("machine a login b", "c", None), None);
    }
}

//! The program `edt`; all of it is in the library, which the Python package runs too.

fn main() {
    std::process::exit(edt_cli::main_from(std::env::args_os()));
}

//! The JVM binding: few natives, which take and give batches; the bytes of files never lie on the heap of the JVM.
//!
//! Its counterpart is the class `io.edt.nf.Native`, where each native is documented. Texts cross the boundary as fields of UTF-8 with a
//! NUL between them: names can hold anything else.

mod engine;
mod error;
mod fields;
mod natives;
mod running;
mod settings;
mod table;

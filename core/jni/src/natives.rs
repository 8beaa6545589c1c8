//! The natives of `io.edt.nf.Native`, in its order. Each one converts, calls, and converts back; what fails or panics is thrown.

use std::sync::Arc;
use std::time::Duration;

use edt::files::FileReader;
use edt::store::Depth;
use jni::objects::{JByteArray, JByteBuffer, JClass, JLongArray};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, EnvUnowned};

use crate::engine::Engine;
use crate::error::{Failure, Throw};
use crate::fields::mistaken;
use crate::running::Running;
use crate::settings;
use crate::table::Table;

static ENGINES: Table<Engine> = Table::new();
static FILES: Table<FileReader> = Table::new();
static TRANSFERS: Table<Running> = Table::new();

type Result<T> = std::result::Result<T, Failure>;

/// `long open(byte[] settings)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_open<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    settings: JByteArray<'a>,
) -> jlong {
    env.with_env(|env| -> Result<jlong> {
        let options = settings::engine(&bytes(env, &settings)?)?;
        Ok(ENGINES.add(Engine::new(options)))
    })
    .resolve::<Throw>()
}

/// `void close(long engine)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_close<'a>(mut env: EnvUnowned<'a>, _: JClass<'a>, engine: jlong) {
    env.with_env(|_| -> Result<()> {
        ENGINES.remove(engine);
        Ok(())
    })
    .resolve::<Throw>();
}

/// `byte[] stat(long engine, byte[] place)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_stat<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    engine: jlong,
    place: JByteArray<'a>,
) -> JByteArray<'a> {
    env.with_env(|env| -> Result<JByteArray<'a>> {
        let place = bytes(env, &place)?;
        let described = ENGINES.find(engine)?.stat(&place)?;
        Ok(env.byte_array_from_slice(&described)?)
    })
    .resolve::<Throw>()
}

/// `byte[] list(long engine, byte[] place, boolean tree)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_list<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    engine: jlong,
    place: JByteArray<'a>,
    tree: jboolean,
) -> JByteArray<'a> {
    env.with_env(|env| -> Result<JByteArray<'a>> {
        let place = bytes(env, &place)?;
        let listed = ENGINES.find(engine)?.list(&place, if tree { Depth::Tree } else { Depth::One })?;
        Ok(env.byte_array_from_slice(&listed)?)
    })
    .resolve::<Throw>()
}

/// `void change(long engine, byte[] change)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_change<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    engine: jlong,
    change: JByteArray<'a>,
) {
    env.with_env(|env| -> Result<()> {
        let change = bytes(env, &change)?;
        Ok(ENGINES.find(engine)?.change(&change)?)
    })
    .resolve::<Throw>();
}

/// `long openFile(long engine, byte[] place, long[] size)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_openFile<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    engine: jlong,
    place: JByteArray<'a>,
    size: JLongArray<'a>,
) -> jlong {
    env.with_env(|env| -> Result<jlong> {
        let place = bytes(env, &place)?;
        let (files, path) = ENGINES.find(engine)?.place(&place)?;
        let reader = files.reader(&path, 0..FIRST)?;
        size.set_region(env, 0, &[jlong::try_from(reader.entry().size).unwrap_or(jlong::MAX)])?;
        Ok(FILES.add(reader))
    })
    .resolve::<Throw>()
}

/// Bytes of a file that come with the answer that it is there.
const FIRST: u64 = 256 << 10;

/// `int read(long file, long position, ByteBuffer into, int length)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_read<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    file: jlong,
    position: jlong,
    into: JByteBuffer<'a>,
    length: jint,
) -> jint {
    env.with_env(|env| -> Result<jint> {
        let file = FILES.find(file)?;
        let (address, capacity) = (env.get_direct_buffer_address(&into)?, env.get_direct_buffer_capacity(&into)?);
        let length = usize::try_from(length).unwrap_or(0).min(capacity);
        let position = u64::try_from(position).map_err(|_| mistaken("a position below 0"))?;
        // SAFETY: the memory belongs to a direct buffer of this capacity, which the caller holds and shares with nobody during the call.
        let buffer = unsafe { std::slice::from_raw_parts_mut(address, length) };
        let read = file.read_at(position, buffer, &|| Ok(()))?;
        Ok(jint::try_from(read).unwrap_or(jint::MAX))
    })
    .resolve::<Throw>()
}

/// `void closeFile(long file)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_closeFile<'a>(mut env: EnvUnowned<'a>, _: JClass<'a>, file: jlong) {
    env.with_env(|_| -> Result<()> {
        FILES.remove(file);
        Ok(())
    })
    .resolve::<Throw>();
}

/// `long start(long engine, byte[] transfer)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_start<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    engine: jlong,
    transfer: JByteArray<'a>,
) -> jlong {
    env.with_env(|env| -> Result<jlong> {
        let transfer = bytes(env, &transfer)?;
        let transfer = settings::transfer(&transfer, &ENGINES.find(engine)?.options)?;
        Ok(TRANSFERS.add(Running::start(transfer)?))
    })
    .resolve::<Throw>()
}

/// `boolean await(long transfer, long millis, long[] progress)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_await<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    transfer: jlong,
    millis: jlong,
    progress: JLongArray<'a>,
) -> jboolean {
    env.with_env(|env| -> Result<jboolean> {
        let running = TRANSFERS.find(transfer)?;
        let ended = running.wait(Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        progress.set_region(env, 0, &running.progress())?;
        Ok(ended)
    })
    .resolve::<Throw>()
}

/// `void cancel(long transfer)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_cancel<'a>(mut env: EnvUnowned<'a>, _: JClass<'a>, transfer: jlong) {
    env.with_env(|_| -> Result<()> {
        TRANSFERS.find(transfer)?.cancel();
        Ok(())
    })
    .resolve::<Throw>();
}

/// `byte[] finish(long transfer)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Native_finish<'a>(
    mut env: EnvUnowned<'a>,
    _: JClass<'a>,
    transfer: jlong,
) -> JByteArray<'a> {
    env.with_env(|env| -> Result<JByteArray<'a>> {
        let running: Arc<Running> = TRANSFERS.find(transfer)?;
        TRANSFERS.remove(transfer);
        let report = running.finish()?;
        Ok(env.byte_array_from_slice(&report)?)
    })
    .resolve::<Throw>()
}

/// `void panic()` of the class `Panics`, which the tests of the plugin have: for them to see what becomes of a panic.
#[cfg(debug_assertions)]
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_edt_nf_Panics_panic<'a>(mut env: EnvUnowned<'a>, _: JClass<'a>) {
    env.with_env(|_| -> Result<()> { panic!("on purpose") }).resolve::<Throw>();
}

fn bytes(env: &mut Env<'_>, array: &JByteArray<'_>) -> Result<Vec<u8>> {
    Ok(env.convert_byte_array(array)?)
}

//! Tables from and to a Flight service that is not edt's.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod foreign;

use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use edt::files::Files;
use edt::options::{Overwrite, RunMode, SecretSource, TransferOptions};
use edt::path::RelativePath;
use edt::store::Depth;
use edt::{Endpoint, ErrorKind, Report, Transfer};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use foreign::{Asks, Foreign, numbers, table};

const SECRET: &str = "0123456789abcdef";

fn options() -> TransferOptions {
    TransferOptions { secret: SecretSource::Text(SECRET.to_owned()), ..TransferOptions::default() }
}

fn open() -> Foreign {
    edt_flight::register();
    Foreign::new(Asks::Bearer(SECRET.to_owned()))
}

fn copy(from: &str, to: &Path) -> edt::Result<Report> {
    Transfer::new(from, to).with_options(options()).run()
}

fn parquet(path: &Path) -> Vec<RecordBatch> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    builder.build().unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_table_of_many_endpoints_becomes_one_file_in_order() {
    let place = tempfile::tempdir().unwrap();
    let service = open().with("t", table(40));
    // No endpoint is answered before a second one is asked for.
    service.tables.together.store(2, Ordering::SeqCst);
    let path = place.path().join("new/t.parquet");
    let report = copy(&service.url("t"), &path).unwrap();
    assert_eq!(numbers(&parquet(&path)), (0..40_000).collect::<Vec<_>>());
    assert_eq!((report.totals.files_done, report.totals.failed), (1, 0));
    assert_eq!(report.totals.bytes_done, path.metadata().unwrap().len());
    let entry = report.manifest.entries().next().unwrap().unwrap();
    assert_eq!(entry.blake3.unwrap(), *blake3::hash(&std::fs::read(&path).unwrap()).as_bytes());
    assert!(service.tables.callers.lock().unwrap().len() > 1, "several connections were used");
    let arrow = place.path().join("t.arrow");
    copy(&service.url("t"), &arrow).unwrap();
    let batches: Vec<_> = FileReader::try_new(File::open(arrow).unwrap(), None).unwrap().map(Result::unwrap).collect();
    assert_eq!(numbers(&batches), (0..40_000).collect::<Vec<_>>());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2, "nothing else is left");
}

#[test]
fn the_number_of_streams_is_the_optimizers() {
    let place = tempfile::tempdir().unwrap();
    let service = open().with("t", table(12));
    service.tables.together.store(3, Ordering::SeqCst);
    let options = TransferOptions { optimizer: "fixed".to_owned(), concurrency: 3, ..options() };
    let report = Transfer::new(service.url("t"), place.path().join("t.parquet")).with_options(options).run().unwrap();
    assert_eq!(report.decisions[0].decision.concurrency.network, 3);
    assert_eq!(service.tables.callers.lock().unwrap().len(), 3);
}

#[test]
fn a_directory_gets_a_file_for_each_endpoint() {
    let place = tempfile::tempdir().unwrap();
    let service = open().with("a/t", table(3));
    let report = copy(&service.url("a/t"), place.path()).unwrap();
    assert_eq!(report.totals.files_done, 3);
    let rows: Vec<_> = (0..3).flat_map(|part| numbers(&parquet(&place.path().join(format!("t-{part:05}.parquet"))))).collect();
    assert_eq!(rows, (0..3000).collect::<Vec<_>>());
}

#[test]
fn an_endpoint_that_breaks_is_fetched_again_from_its_beginning() {
    let place = tempfile::tempdir().unwrap();
    let service = open().with("t", table(6));
    service.tables.failures.store(3, Ordering::SeqCst);
    let path = place.path().join("t.parquet");
    let report = copy(&service.url("t"), &path).unwrap();
    assert_eq!(numbers(&parquet(&path)), (0..6000).collect::<Vec<_>>());
    assert!(report.totals.retries >= 3 && service.tables.gets.load(Ordering::SeqCst) == 9);
}

#[test]
fn endpoints_are_fetched_where_the_service_says() {
    let place = tempfile::tempdir().unwrap();
    let data = open().with("t", table(4));
    let catalogue = open().with("t", table(4)).serving_elsewhere(&format!("grpc+tcp://{}", data.address));
    copy(&catalogue.url("t"), &place.path().join("t.parquet")).unwrap();
    assert_eq!((catalogue.tables.gets.load(Ordering::SeqCst), data.tables.gets.load(Ordering::SeqCst)), (0, 4));
    let same = open().with("t", table(4)).serving_elsewhere("arrow-flight-reuse-connection://?");
    copy(&same.url("t"), &place.path().join("same.parquet")).unwrap();
    assert_eq!(same.tables.gets.load(Ordering::SeqCst), 4);
    let strange = open().with("t", table(1)).serving_elsewhere("gopher://x");
    let error = copy(&strange.url("t"), &place.path().join("no.parquet")).unwrap_err();
    assert!(error.explain().contains("gopher://x"), "{error}");
}

#[test]
fn what_is_no_path_is_asked_for_as_a_command() {
    let place = tempfile::tempdir().unwrap();
    let service = open().with("t", table(1));
    let path = place.path().join("t.parquet");
    copy(&service.url("select%20t"), &path).unwrap();
    assert_eq!(numbers(&parquet(&path)).len(), 1000);
    let error = copy(&service.url("nothing"), &path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.explain().contains("no table nothing"));
}

#[test]
fn flights_are_listed_and_described() {
    let service = open().with("b", table(1)).with("a", table(0));
    let files = Files::open(&Endpoint::new(service.url("")), &options()).unwrap();
    let names: Vec<_> =
        files.list(&RelativePath::root(), Depth::One).unwrap().map(|entry| entry.unwrap().path.to_string()).collect();
    assert_eq!(names, ["a", "b"]);
    let stat = |name: &str| Files::open(&Endpoint::new(service.url(name)), &options()).unwrap().stat(&RelativePath::root());
    assert!(stat("a").is_ok());
    assert_eq!(stat("c").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_table_without_endpoints_has_its_columns() {
    let place = tempfile::tempdir().unwrap();
    let service = open().with("t", table(0));
    let path = place.path().join("t.parquet");
    copy(&service.url("t"), &path).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    assert_eq!((builder.schema().fields().len(), builder.metadata().file_metadata().num_rows()), (2, 0));
}

#[test]
fn tables_are_put_to_a_service() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("deep")).unwrap();
    for name in ["one.parquet", "two.parquet", "deep/three.parquet"] {
        let mut writer =
            ArrowWriter::try_new(File::create(place.path().join(name)).unwrap(), table(1)[0].schema(), None).unwrap();
        for batch in table(5) {
            writer.write(&batch).unwrap();
        }
        writer.close().unwrap();
    }
    let service = open();
    let bring = |from: &Path, name: &str| Transfer::new(from, service.url(name)).with_options(options()).run().unwrap();
    let report = bring(&place.path().join("one.parquet"), "a/t");
    assert_eq!((report.totals.files_done, report.totals.failed), (1, 0));
    bring(place.path(), "all/");
    let tables = service.tables.named.lock().unwrap();
    for name in ["a/t", "all/one.parquet", "all/two.parquet", "all/deep/three.parquet"] {
        assert_eq!(numbers(&tables[name]), (0..5000).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn who_calls_is_said_as_the_service_asks() {
    edt_flight::register();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("t.parquet");
    let login = Foreign::new(Asks::Login("ann".to_owned(), SECRET.to_owned())).with("t", table(1));
    copy(&login.url("t").replace("flight://", "flight://ann@"), &path).unwrap();
    let refused = copy(&login.url("t"), &path).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
    assert!(refused.hint().is_some());
    let open = Foreign::new(Asks::Nothing).with("t", table(1));
    Transfer::new(open.url("t"), path.as_path()).run().unwrap();
    let file = place.path().join("token");
    std::fs::write(&file, SECRET).unwrap();
    let bearer = Foreign::new(Asks::Bearer(SECRET.to_owned())).with("t", table(1));
    let options = TransferOptions { secret: SecretSource::File(file), ..options() };
    Transfer::new(bearer.url("t"), path.as_path()).with_options(options).run().unwrap();
}

#[test]
fn what_is_there_stays_if_it_shall_and_a_dry_run_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let service = open().with("t", table(1));
    let path = place.path().join("t.parquet");
    let dry = TransferOptions { run: RunMode::DryRun, ..options() };
    let report = Transfer::new(service.url("t"), path.as_path()).with_options(dry).run().unwrap();
    assert!(report.dry_run && !path.exists() && report.totals.files_done == 1);
    std::fs::write(&path, "mine").unwrap();
    let never = TransferOptions { overwrite: Overwrite::Never, ..options() };
    let error = Transfer::new(service.url("t"), path.as_path()).with_options(never).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_name_that_says_nothing_is_refused_before_anything_is_fetched() {
    let place = tempfile::tempdir().unwrap();
    let service = open().with("t", table(1));
    let error = copy(&service.url("t"), &place.path().join("t.txt")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(service.tables.gets.load(Ordering::SeqCst), 0);
}

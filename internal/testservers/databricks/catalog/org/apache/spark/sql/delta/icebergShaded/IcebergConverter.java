package org.apache.spark.sql.delta.icebergShaded;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.delta.DeltaTransaction;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.UniversalFormatConverter;
import scala.Option;
import scala.Some;
import scala.Tuple2;

/**
 * Stands in for the class of that name in the module delta-iceberg, which Delta's UniForm looks for.
 * Delta's own checks run and commits succeed, but no Iceberg metadata is written.
 */
public class IcebergConverter extends UniversalFormatConverter {
  public IcebergConverter(SparkSession spark) {
    super(spark);
  }

  @Override
  public void enqueueSnapshotForConversion(Snapshot snapshot, DeltaTransaction txn) {}

  @Override
  public Option<Tuple2<Object, Object>> convertSnapshot(Snapshot snapshot, DeltaTransaction txn) {
    return done(snapshot);
  }

  @Override
  public Option<Tuple2<Object, Object>> convertSnapshot(Snapshot snapshot, CatalogTable table) {
    return done(snapshot);
  }

  @Override
  public Option<Object> loadLastDeltaVersionConverted(Snapshot snapshot, CatalogTable table) {
    return Option.empty();
  }

  private static Option<Tuple2<Object, Object>> done(Snapshot snapshot) {
    return new Some<>(new Tuple2<>(snapshot.version(), snapshot.timestamp()));
  }
}

"""Measurements that are not a whole workload: one file each, with `run(options)`."""

from __future__ import annotations

PARTS = {
    "first": "the first speed check: workload A, training and predicting",
    "binning": "preparing 1 M × 28 float32 values",
    "predict": "100 k rows through 100 trees",
    "imported": "100 k rows through imported models, here and at home",
    "exchange": "round trips of models between libraries, compared on their thresholds",
    "onerow": "one row through each estimator's predict",
    "threads": "one thread against several, workload A",
    "busy": "all cores kept busy by another program",
    "scaling": "eight times as many rows",
    "roofline": "where the time of workload A goes, and the machine's ceiling",
    "sampling": "one-sided samples of the rows against all rows, workloads A and F",
    "sparse": "a sparse one-hot matrix of 200 k × 20 k, training, memory and held-out loss",
    "startup": "import and first fit in a new process, with a warm and an empty cache",
    "customloss": "log-loss written as a Loss of one's own against the built-in one",
    "inspection": "SHAP values, and dependence against scikit-learn's brute force",
    "quality": "held-out loss on real tables",
    "draws": "held-out loss on workloads A to H, several draws of each, against every peer that grows leaf by leaf",
    "categories": "held-out loss on real tables with categories, against LightGBM, XGBoost and CatBoost",
    "cluster": "two workers of one thread each against one process with two threads, and against others' Dask training",
    "adaboost": "AdaBoost of stumps against scikit-learn's, 100 k × 30, 400 rounds",
    "disk": "Parquet files larger than the memory allowed, against memory and XGBoost's external memory",
}

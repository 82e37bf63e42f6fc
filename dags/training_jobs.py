"""One Airflow DAG for each tenant of `config/tenants.yaml`: a run of it is a training job."""

from ffdl_ops.adapters.settings import Settings
from ffdl_ops.pipeline.dag_factory import build_dags

_settings = Settings.load()
globals().update(build_dags(_settings.tenants, _settings.platform.gpu_types))

#!/bin/sh
# Starts the ranks of this run on this machine, as zerocfg started them. Re-run it by hand from anywhere.
case $0 in */*) here=${0%/*}/ ;; *) here=./ ;; esac
here=$(CDPATH= cd -P -- "$here.." && pwd -P && echo x) || exit 1
export ZEROCFG_RUN_DIR="${here%??}"
cd -- '/home/user/my project' || exit 1
[ -n "${OMP_NUM_THREADS+x}" ] || export OMP_NUM_THREADS=8
[ -n "${DEEPSPEED_TIMEOUT+x}" ] || export DEEPSPEED_TIMEOUT=10
[ -n "${TORCH_ELASTIC_SHUTDOWN_TIMEOUT+x}" ] || export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=30
[ -n "${TORCH_FR_BUFFER_SIZE+x}" ] || export TORCH_FR_BUFFER_SIZE=2000
[ -n "${TORCH_NCCL_DUMP_ON_TIMEOUT+x}" ] || export TORCH_NCCL_DUMP_ON_TIMEOUT=1
[ -n "${TORCH_FR_DUMP_TEMP_FILE+x}" ] || export TORCH_FR_DUMP_TEMP_FILE="$ZEROCFG_RUN_DIR"/nccl_trace_rank_
[ -n "${HF_TOKEN+x}" ] || echo "HF_TOKEN is not set: its value is not written here" >&2
zerocfg_csv() { printf "%s" "$1" | sed 's/"/""/g'; }
[ -z "${OMP_NUM_THREADS+x}" ] || export APPTAINERENV_OMP_NUM_THREADS="$OMP_NUM_THREADS"
[ -z "${DEEPSPEED_TIMEOUT+x}" ] || export APPTAINERENV_DEEPSPEED_TIMEOUT="$DEEPSPEED_TIMEOUT"
[ -z "${TORCH_ELASTIC_SHUTDOWN_TIMEOUT+x}" ] || export APPTAINERENV_TORCH_ELASTIC_SHUTDOWN_TIMEOUT="$TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
[ -z "${TORCH_FR_BUFFER_SIZE+x}" ] || export APPTAINERENV_TORCH_FR_BUFFER_SIZE="$TORCH_FR_BUFFER_SIZE"
[ -z "${TORCH_NCCL_DUMP_ON_TIMEOUT+x}" ] || export APPTAINERENV_TORCH_NCCL_DUMP_ON_TIMEOUT="$TORCH_NCCL_DUMP_ON_TIMEOUT"
[ -z "${TORCH_FR_DUMP_TEMP_FILE+x}" ] || export APPTAINERENV_TORCH_FR_DUMP_TEMP_FILE="$TORCH_FR_DUMP_TEMP_FILE"
[ -z "${HF_TOKEN+x}" ] || export APPTAINERENV_HF_TOKEN="$HF_TOKEN"
[ -z "${ZEROCFG_RUN_DIR+x}" ] || export APPTAINERENV_ZEROCFG_RUN_DIR="$ZEROCFG_RUN_DIR"
[ -z "${ZEROCFG_JOB_TOKEN+x}" ] || export APPTAINERENV_ZEROCFG_JOB_TOKEN="$ZEROCFG_JOB_TOKEN"
[ -z "${PET_LOCAL_ADDR+x}" ] || export APPTAINERENV_PET_LOCAL_ADDR="$PET_LOCAL_ADDR"
[ -z "${GLOO_SOCKET_IFNAME+x}" ] || export APPTAINERENV_GLOO_SOCKET_IFNAME="$GLOO_SOCKET_IFNAME"
[ -z "${SLURM_JOB_ID+x}" ] || export APPTAINERENV_SLURM_JOB_ID="$SLURM_JOB_ID"
[ -z "${SLURM_NODEID+x}" ] || export APPTAINERENV_SLURM_NODEID="$SLURM_NODEID"
[ -z "${SLURM_RESTART_COUNT+x}" ] || export APPTAINERENV_SLURM_RESTART_COUNT="$SLURM_RESTART_COUNT"
exec apptainer \
  exec \
  --nv \
  --mount=type=bind,\"source="$(zerocfg_csv "$PWD")"\",\"target="$(zerocfg_csv "$PWD")"\" \
  --mount=type=bind,\"source="$(zerocfg_csv "$ZEROCFG_RUN_DIR")"\",\"target="$(zerocfg_csv "$ZEROCFG_RUN_DIR")"\" \
  --mount=type=bind,source=/nvme,target=/nvme \
  --pwd="$PWD" \
  /images/zerocfg.sif \
  python3 -u -m torch.distributed.run \
  --nnodes=1 \
  --nproc-per-node=8 \
  --standalone \
  --max-restarts=0 \
  --signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2 \
  --log-dir="$ZEROCFG_RUN_DIR"/torchrun \
  --tee=3 \
  --local-ranks-filter=0 \
  -m x 'a b'

#!/bin/sh
# Starts the ranks of this run on this machine, as zerocfg started them. Re-run it by hand from anywhere.
case $0 in */*) here=${0%/*}/ ;; *) here=./ ;; esac
here=$(CDPATH= cd -P -- "$here.." && pwd -P && echo x) || exit 1
export ZEROCFG_RUN_DIR="${here%??}"
cd -- '/home/user/my project' || exit 1
: "${ZEROCFG_RDZV_HOST:?set it to the name of the first machine, the same on all}"
: "${ZEROCFG_RDZV_ID:=zerocfg}"
[ -n "${OMP_NUM_THREADS+x}" ] || export OMP_NUM_THREADS=8
[ -n "${DEEPSPEED_TIMEOUT+x}" ] || export DEEPSPEED_TIMEOUT=10
[ -n "${TORCH_ELASTIC_SHUTDOWN_TIMEOUT+x}" ] || export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=30
[ -n "${TORCH_FR_BUFFER_SIZE+x}" ] || export TORCH_FR_BUFFER_SIZE=2000
[ -n "${TORCH_NCCL_DUMP_ON_TIMEOUT+x}" ] || export TORCH_NCCL_DUMP_ON_TIMEOUT=1
[ -n "${TORCH_FR_DUMP_TEMP_FILE+x}" ] || export TORCH_FR_DUMP_TEMP_FILE="$ZEROCFG_RUN_DIR"/nccl_trace_rank_
[ -n "${HF_TOKEN+x}" ] || echo "HF_TOKEN is not set: its value is not written here" >&2
export A='it'"'"'s'
zerocfg_csv() { printf "%s" "$1" | sed 's/"/""/g'; }
zerocfg_gpus=all; [ -z "${CUDA_VISIBLE_DEVICES+x}" ] || zerocfg_gpus="\"device=$CUDA_VISIBLE_DEVICES\""
exec docker \
  run \
  --rm \
  --init \
  --gpus="$zerocfg_gpus" \
  --shm-size=16g \
  --ulimit=memlock=-1 \
  --ulimit=stack=67108864 \
  --network=host \
  --device=/dev/infiniband \
  --cap-add=IPC_LOCK \
  --user="$(id -u):$(id -g)" \
  --mount=type=bind,\"source="$(zerocfg_csv "$PWD")"\",\"target="$(zerocfg_csv "$PWD")"\" \
  --mount=type=bind,\"source="$(zerocfg_csv "$ZEROCFG_RUN_DIR")"\",\"target="$(zerocfg_csv "$ZEROCFG_RUN_DIR")"\" \
  --mount=type=bind,source=/data,target=/d,ro \
  '--mount=type=bind,"source=/it'"'"'s,a folder","target=/it'"'"'s,a folder"' \
  --mount=type=bind,source=/corpus,target=/corpus,ro \
  --workdir="$PWD" \
  --env=HOME=/tmp \
  --env=LOGNAME=zerocfg \
  --env=OMP_NUM_THREADS \
  --env=DEEPSPEED_TIMEOUT \
  --env=TORCH_ELASTIC_SHUTDOWN_TIMEOUT \
  --env=TORCH_FR_BUFFER_SIZE \
  --env=TORCH_NCCL_DUMP_ON_TIMEOUT \
  --env=TORCH_FR_DUMP_TEMP_FILE \
  --env=HF_TOKEN \
  --env=A \
  --env=ZEROCFG_RUN_DIR \
  --env=ZEROCFG_JOB_TOKEN \
  --env=PET_LOCAL_ADDR \
  --env=GLOO_SOCKET_IFNAME \
  --env=SLURM_JOB_ID \
  --env=SLURM_NODEID \
  --env=SLURM_RESTART_COUNT \
  --env=WANDB_API_KEY \
  --group-add=video \
  '--label=a b' \
  'repo/my image:1.0' \
  /opt/venv/bin/python -u -m torch.distributed.run \
  --nnodes=2 \
  --nproc-per-node=8 \
  --rdzv-backend=c10d \
  --rdzv-endpoint="$ZEROCFG_RDZV_HOST":"${ZEROCFG_RDZV_PORT:-29500}" \
  --rdzv-id="$ZEROCFG_RDZV_ID" \
  --rdzv-conf=join_timeout=900"${ZEROCFG_RDZV_CONF:+,$ZEROCFG_RDZV_CONF}" \
  --max-restarts=0 \
  --signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2 \
  --log-dir="$ZEROCFG_RUN_DIR"/torchrun \
  --tee=3 \
  --local-ranks-filter=0 \
  -m x 'a b'

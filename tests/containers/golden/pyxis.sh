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
exec python3 -u -m torch.distributed.run \
  --nnodes=1 \
  --nproc-per-node=8 \
  --standalone \
  --max-restarts=0 \
  --signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2 \
  --log-dir="$ZEROCFG_RUN_DIR"/torchrun \
  --tee=3 \
  --local-ranks-filter=0 \
  -m x 'a b'

# srun's words
--container-image=/images/zerocfg.sqsh
--container-mounts="$PWD:$PWD","$ZEROCFG_RUN_DIR:$ZEROCFG_RUN_DIR",/data:/d:ro
--container-workdir="$PWD"
--no-container-mount-home
--container-env=OMP_NUM_THREADS,DEEPSPEED_TIMEOUT,TORCH_ELASTIC_SHUTDOWN_TIMEOUT,TORCH_FR_BUFFER_SIZE,TORCH_NCCL_DUMP_ON_TIMEOUT,TORCH_FR_DUMP_TEMP_FILE,ZEROCFG_RUN_DIR,ZEROCFG_JOB_TOKEN,PET_LOCAL_ADDR,GLOO_SOCKET_IFNAME,SLURM_JOB_ID,SLURM_NODEID,SLURM_RESTART_COUNT

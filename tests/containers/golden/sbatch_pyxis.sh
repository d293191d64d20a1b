#!/bin/bash
# Written by zerocfg: 1 job, 2 nodes a job. `sbatch FILE` runs it again.
#SBATCH --job-name=train
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH --gpus-per-node=8
#SBATCH --no-requeue
#SBATCH --open-mode=append
#SBATCH --chdir=/runs/slurm
#SBATCH --output=%j.log

job='/runs/my job'
id=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
mkdir -p -- "$job/.zerocfg" || { echo "zerocfg: $(hostname) cannot write $job: all nodes must share its file system" >&2; exit 1; }
rm -f -- "$job/.zerocfg/slurm_end"
trap 'echo "$id $?" >"$job/.zerocfg/slurm_end"' EXIT
trap 'exit 143' TERM
trap : USR2
export ZEROCFG_RUN_DIR="$job" ZEROCFG_JOB_TOKEN="slurm-$SLURM_JOB_ID"
export GREETING='it'"'"'s'
cd -- '/home/me/my project' || exit

# hydra.launcher.setup
module load cuda

# where the nodes meet: the first host's address and a free port on it, which is this one
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST") || exit
meet=$(/home/me/venv/bin/python -m zerocfg.launch.slurm_node rendezvous $hosts) || exit
export ZEROCFG_RDZV_HOST="${meet% *}" ZEROCFG_RDZV_PORT="${meet##* }"
export ZEROCFG_RDZV_ID="$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}"

here=$PWD
cd -- "$job" || exit
/home/me/venv/bin/python -m zerocfg.launch.slurm_step \
  srun --nodes=2 --ntasks=2 --cpus-per-task=64 --kill-on-bad-exit=1 --cpu-bind=none --output=.zerocfg/torchrun.log --open-mode=append --label --container-image='/images/my zerocfg.sqsh' --container-mounts="$here:$here","$ZEROCFG_RUN_DIR:$ZEROCFG_RUN_DIR",/data:/d:ro,'/it'"'"'s here:/it'"'"'s here' --container-workdir="$here" --no-container-mount-home --container-env=OMP_NUM_THREADS,DEEPSPEED_TIMEOUT,TORCH_ELASTIC_SHUTDOWN_TIMEOUT,TORCH_FR_BUFFER_SIZE,TORCH_NCCL_DUMP_ON_TIMEOUT,TORCH_FR_DUMP_TEMP_FILE,HF_TOKEN,A,ZEROCFG_RUN_DIR,ZEROCFG_JOB_TOKEN,PET_LOCAL_ADDR,GLOO_SOCKET_IFNAME,SLURM_JOB_ID,SLURM_NODEID,SLURM_RESTART_COUNT --container-remap-root \
    /opt/conda/bin/python -m zerocfg.launch.slurm_node start "$job/compiled/launch.sh"

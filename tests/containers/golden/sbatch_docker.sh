#!/bin/bash
# Written by zerocfg: 1 job, 1 node a job. `sbatch FILE` runs it again.
#SBATCH --job-name=train
#SBATCH --partition=gpu
#SBATCH --nodes=1
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

cd -- "$job" || exit
/home/me/venv/bin/python -m zerocfg.launch.slurm_step \
  srun --nodes=1 --ntasks=1 --cpus-per-task=64 --kill-on-bad-exit=1 --cpu-bind=none --output=.zerocfg/torchrun.log --open-mode=append \
    /home/me/venv/bin/python -m zerocfg.launch.slurm_node start "$job/compiled/launch.sh"

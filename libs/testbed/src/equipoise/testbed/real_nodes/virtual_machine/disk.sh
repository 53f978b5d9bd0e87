#!/bin/sh
# Makes the disk of a virtual machine. It is called in a mount namespace of its own, with
#   TREE, PROGRAMS          the system, which is not changed, and the folder of kubelet and kube-proxy
#   IMAGES                  archives of images
#   SIZE                    of the file system
#   SCRATCH, RESULT         a folder for temporary files, and the folder for disk, kernel and initrd
set -eu
root=$SCRATCH/root
mkdir "$root" "$SCRATCH/changes" "$SCRATCH/work" "$SCRATCH/containerd"
mount -t overlay -o "lowerdir=$TREE,upperdir=$SCRATCH/changes,workdir=$SCRATCH/work" overlay "$root"
mkdir -p "$root/opt/programs" "$root/var/lib/containerd"
cp -a "$PROGRAMS/." "$root/opt/programs/"
mount --bind "$SCRATCH/containerd" "$root/var/lib/containerd"  # an overlay cannot be a layer of another one

mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
chroot "$root" containerd > "$SCRATCH/containerd.log" 2>&1 &
containerd=$!
until [ -S "$root/run/containerd/containerd.sock" ]; do
    kill -0 $containerd || { cat "$SCRATCH/containerd.log"; exit 1; }
    sleep 0.1
done
for archive in $IMAGES; do
    echo "STEP unpack ${archive##*/}"
    chroot "$root" ctr --namespace k8s.io images import - < "$archive"
done
kill $containerd
wait $containerd || true
umount -l "$root/dev" "$root/run" "$root/proc"

echo "STEP make the file system"
cp "$root"/boot/vmlinuz-* "$RESULT/kernel"
cp "$root"/boot/initrd.img-* "$RESULT/initrd"
# Otherwise the kernel of the virtual machine would clear the rest of the disk while its node starts.
mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 -d "$root" "$RESULT/disk" "$SIZE"

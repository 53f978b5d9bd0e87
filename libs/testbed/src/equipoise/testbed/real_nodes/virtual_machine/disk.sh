#!/bin/sh
# Makes the disk of a virtual machine. It is called in a mount namespace of its own, with
#   TREE, PROGRAMS          the system, which is not changed, and the folder of kubelet and kube-proxy
#   IMAGES                  archives of images
#   SIZE                    of the file system
#   POLICY                  rules in addition to those of Debian, for a system with SELinux
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

selinux=/etc/selinux/default/contexts/files/file_contexts
if [ -e "$root$selinux" ]; then
    echo "STEP label all files"
    printf 'SELINUX=enforcing\nSELINUXTYPE=default\n' > "$root/etc/selinux/config"
    cp "$POLICY" "$root/opt/node/policy.cil"
    # Everything that is denied is in the log, also what programs try without need.
    chroot "$root" semodule --noreload --disable_dontaudit --install /opt/node/policy.cil
    chroot "$root" setfiles -m "$selinux" / /var/lib/containerd  # in the virtual machine it would take minutes
fi

echo "STEP make the file system"
cp "$root"/boot/vmlinuz-* "$RESULT/kernel"
cp "$root"/boot/initrd.img-* "$RESULT/initrd"
# Otherwise the kernel of the virtual machine would clear the rest of the disk while its node starts.
mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 -d "$root" "$RESULT/disk" "$SIZE"

#!/bin/sh
# Run inside the root of the stand-in as it is made: builds GDAL's Parquet driver as a plugin, from Debian's source of GDAL and
# Debian's Arrow. Debian itself builds GDAL without it. Leaves the plugin and the two libraries that it needs, nothing else.
set -eu
export DEBIAN_FRONTEND=noninteractive
plugins=$(dirname "$(find /usr/lib -path '*/gdalplugins/drivers.ini')")
work=/tmp/parquet
mkdir -p "$work/gdal" "$work/include"
cd "$work"

cp /etc/apt/sources.list /etc/apt/sources.list.d/source.list
sed -i 's/^deb /deb-src /' /etc/apt/sources.list.d/source.list
apt-get -q -o Acquire::Check-Valid-Until=false update
# the library that the headers belong to
needed=$(apt-cache depends libparquet-dev | sed -n 's/.*Depends: \(libparquet[0-9.]*\)$/\1/p')
# the sources come while the compiler is installed
(
  apt-get -q -o APT::Sandbox::User=root download libgdal-dev libarrow-dev libparquet-dev &&
    apt-get -q -o APT::Sandbox::User=root source --tar-only gdal="$(dpkg-query -f '${source:Version}' -W gdal-bin)"
) &
sources=$!
apt-get -q -y --no-install-recommends install "$needed" g++ xz-utils
apt-mark manual "$needed" >/dev/null
wait "$sources"
for package in *.deb; do dpkg -x "$package" "$work/include"; done
tar -xf gdal_*.orig.tar.* -C gdal --strip-components=1

library() { basename "$(find /usr/lib -name "$1.so.*" | sort | head -n 1)"; }
cd gdal/ogr/ogrsf_frmts/parquet
building=
for source in dataset driver drivercore layer writerdataset writerlayer; do
  g++ -c -std=c++20 -O1 -fPIC -DSTANDALONE -DGDAL_COMPILATION -I. -I../arrow_common -I.. -I../generic -I../../../gcore -I../../../port \
    -I../../../ogr -I../../../alg -I../../../frmts/mem -I"$work/include/usr/include/gdal" -I"$work/include/usr/include" \
    "ogrparquet$source.cpp" &
  building="$building $!"
done
for one in $building; do wait "$one"; done
g++ -shared -s ./*.o -o "$plugins/ogr_Parquet.so" "-l:$(library libparquet)" "-l:$(library libarrow)" "-l:$(library libgdal)"

cd /
rm -rf "$work" /etc/apt/sources.list.d/source.list
# else a compiler stays that some package merely suggests
apt-get -q -y -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false purge --autoremove g++ xz-utils
apt-get clean
ogrinfo --format Parquet | grep -q Parquet

#!/bin/sh
# Regenerates the certificates in this folder: two servers and a client signed by one authority, and a stranger signed
# by another. All are valid from 2020 to 2120, regardless of the machine's clock.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cat > "$work/ca.cnf" <<CNF
[ca]
default_ca = it
[it]
database = $work/index
new_certs_dir = $work
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
CNF
: > "$work/index"
certificate() { # NAME EXTENSIONS SIGNING-OPTIONS
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$work/$1.csr"
  printf '%s\n' "$2" > "$work/$1.ext"
  openssl ca -batch -notext -config "$work/ca.cnf" -startdate 20200101000000Z -enddate 21200101000000Z \
    -extfile "$work/$1.ext" -in "$work/$1.csr" -out "$1.pem" $3
}
for ca in authority other-authority; do
  certificate "$ca" 'basicConstraints=critical,CA:TRUE' "-selfsign -keyfile $ca.key"
done
ours='-cert authority.pem -keyfile authority.key'
certificate server 'subjectAltName=DNS:localhost,IP:127.0.0.1' "$ours"
certificate renewed 'subjectAltName=DNS:localhost,IP:127.0.0.1' "$ours"
certificate client 'subjectAltName=DNS:scraper.example,IP:::1,URI:spiffe://example/a' "$ours"
certificate stranger 'subjectAltName=DNS:scraper.example' '-cert other-authority.pem -keyfile other-authority.key'
openssl pkey -in server.key -aes256 -passout pass:canary -out encrypted.key
rm authority.key other-authority.key

#!/usr/bin/env bash
# certificates.sh FOLDER [DAYS]: an authority, and certificates of it for the scheduler, the workers and the client.
# Called again it keeps the authority and writes new certificates, which is how they are renewed.
set -euo pipefail
umask 077

folder=${1:?usage: certificates.sh FOLDER [DAYS]}
days=${2:-365}

new_key=(openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

mkdir -p "$folder"/{authority,scheduler,worker,client}
cp "$(dirname "${BASH_SOURCE[0]}")/tls.env" "$folder"
cd "$folder"
if [ ! -e authority/ca.pem ]; then
    "${new_key[@]}" -x509 -days 3650 -subj "/CN=dpmeans authority" \
        -addext "keyUsage=critical,keyCertSign,cRLSign" \
        -keyout authority/key.pem -out authority/ca.pem
fi
for role in scheduler worker client; do
    # Workers and scheduler call each other; a client calls only.
    if [ "$role" = client ]; then usage=clientAuth; else usage=serverAuth,clientAuth; fi
    "${new_key[@]}" -subj "/CN=dpmeans $role" -keyout "$role/key.pem" |
        openssl x509 -req -days "$days" -CA authority/ca.pem -CAkey authority/key.pem \
            -extfile <(echo "extendedKeyUsage=$usage") -out "$role/cert.pem"
    cp authority/ca.pem "$role/ca.pem"
done
echo "wrote $PWD: give each its own folder, and authority/key.pem to nobody"

# Shunt alone, in an image of its own: no shell, no packages. `make image` builds it; README.md
# says how to run it.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
# The root file system that is copied whole: the program, the authorities that sign shards'
# certificates (`tls: {}`), and the directory of the store, which is its user's.
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /root-fs/usr/local/bin/shunt ./cmd/shunt \
 && mkdir -p /root-fs/etc/ssl/certs /root-fs/etc/shunt /root-fs/var/lib/shunt \
 && cp /etc/ssl/certs/ca-certificates.crt /root-fs/etc/ssl/certs/ \
 && chown 65532:65532 /root-fs/var/lib/shunt

FROM scratch
COPY --from=build /root-fs /
USER 65532:65532
# `data_dir: ./data` is below it.
WORKDIR /var/lib/shunt
VOLUME /var/lib/shunt
EXPOSE 4000 4080
ENTRYPOINT ["/usr/local/bin/shunt"]
CMD ["serve", "--config", "/etc/shunt/shunt.yaml"]

// Never compiled: moec is developed on Linux, without a Swift compiler and without Core ML.
//
// An example of a runtime for folders that `moec export --target ane` writes, for macOS 15 and iOS 18 on Apple silicon.
// It steps through the schedule of manifest.json and has no model-specific code. A text model continues a prompt, with
// its caches in states; with a model that labels tokens, each span becomes the name of its class. Tokens are bytes, as in
// tinymoe and tinytagger. scripts/run_with_coreml.py also has tokenizers, recurrent layers and skipped experts.
//
//     moec export models/tinymoe --out tinymoe --target ane --tokens 1,16 --widths functions
//     moec export models/tinytagger --out tinytagger --target ane --tokens 192
//     swiftc -swift-version 5 -parse-as-library -O RunExport.swift
//     ./RunExport tinymoe "def "
//     ./RunExport tinytagger "Call Anna Smith on 3 May."

import CoreML
import Foundation

// ---- The fields of manifest.json that a runtime needs; names in JSON are in snake_case. ----

struct FileRef: Codable { let path: String }
struct TableFile: Codable { let file: FileRef; let columns: Int }
struct RopeTable: Codable { let table: TableFile; let widths: [Int] }
struct Port: Codable { let name, layout: String; let dims: [Int] }
struct Width: Codable { let tokens: Int; let file: FileRef; let function: String; let inputs, outputs: [Port] }
struct Shard: Codable { let name: String; let widths: [Width]; let states: [Port] }
struct InputBinding: Codable { let port, source, edge: String; let window, chunk, ahead, rotation: Int }
struct OutputBinding: Codable { let port, sink, edge: String }
struct Step: Codable { let shard: String; let inputs: [InputBinding]; let outputs: [OutputBinding] }
struct LogitSlice: Codable { let shard: String }
struct Logits: Codable { let slices: [LogitSlice] }
struct Label: Codable { let name: String }
struct Tagging: Codable {
    let labels: [Label]
    let stayOutside, outsideToStart, insideToInside, insideToEnd, endToOutside, endToStart: Float
}
struct Model: Codable { let eosTokens: [Int] }
struct Build: Codable { let format, dtype, cache: String; let tokens: [Int]; let context: Int }
struct Manifest: Codable {
    let tokenizer: String
    let maskedValue: Float
    let model: Model, build: Build, embedding: TableFile
    let rope: RopeTable?  // absent in models without rotations
    let shards: [Shard], schedule: [Step], logits: Logits
    let tagging: Tagging?  // absent in models that generate text
}

struct Unsupported: Error { let what: String }

typealias Rows = [[Float16]]  // one row of channels per token

/// A table of f16 rows, mapped from its file.
struct Table {
    let table: TableFile
    let data: Data

    init(_ table: TableFile, in folder: URL) throws {
        self.table = table
        data = try Data(contentsOf: folder.appending(path: table.file.path), options: .mappedIfSafe)
    }

    func row(_ index: Int, from first: Int, count: Int) -> [Float16] {
        let begin = index * table.columns + first
        return data.withUnsafeBytes { Array($0.bindMemory(to: Float16.self)[begin..<begin + count]) }
    }
}

extension Port {
    // T tokens and C channels: [1, C, T, 1], [1, C, 1, T], or rows [T, C].
    var tokens: Int { layout == "channels" ? dims[2] : layout == "bc1s" ? dims[3] : dims[0] }
    var channels: Int { dims.reduce(1, *) / tokens }

    func index(_ token: Int, _ channel: Int) -> Int {
        layout == "channels" || layout == "bc1s" ? channel * tokens + token : token * channels + channel
    }

    func feature(_ scalars: [Float16]) -> MLFeatureValue {
        MLFeatureValue(shapedArray: MLShapedArray(scalars: scalars, shape: dims))
    }

    /// Rows in the port's layout, padded with zeros to T tokens.
    func pack(_ rows: Rows) -> MLFeatureValue {
        var scalars = [Float16](repeating: 0, count: tokens * channels)
        for (token, row) in rows.enumerated() {
            for (channel, value) in row.enumerated() { scalars[index(token, channel)] = value }
        }
        return feature(scalars)
    }

    /// The rows of the first `count` tokens of an output.
    func unpack(_ value: MLFeatureValue?, count: Int) throws -> Rows {
        guard let scalars = value?.shapedArrayValue(of: Float16.self)?.scalars else { throw Unsupported(what: name) }
        return (0..<count).map { token in (0..<channels).map { scalars[index(token, $0)] } }
    }
}

/// The shards of a folder and the state of one text.
final class ShardRunner {
    let folder: URL
    let manifest: Manifest
    private let shards: [String: Shard]
    private let embedding: Table
    private let rope: Table?
    private var compiled: [URL: URL] = [:]  // by package
    private var models: [String: MLModel] = [:]  // by graph: a package and a function
    private var states: [String: (graph: String, state: MLState)] = [:]  // by shard
    private(set) var position = 0

    init(folder: URL) throws {
        self.folder = folder
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        manifest = try decoder.decode(Manifest.self, from: Data(contentsOf: folder.appending(path: "manifest.json")))
        let build = manifest.build
        guard build.format == "coreml", build.dtype == "f16", build.cache != "append", manifest.tokenizer == "bytes" else {
            throw Unsupported(what: "other targets, --dtype f32, --kv io, tokens that are not bytes")
        }
        shards = Dictionary(uniqueKeysWithValues: manifest.shards.map { ($0.name, $0) })
        embedding = try Table(manifest.embedding, in: folder)
        rope = try manifest.rope.map { try Table($0.table, in: folder) }
    }

    /// The model of a graph, compiled and loaded on first use. An app keeps the compiled package, or lets Xcode compile it.
    private func load(_ width: Width, _ graph: String) async throws -> MLModel {
        if let model = models[graph] { return model }
        var package = folder.appending(path: width.file.path)
        while package.pathExtension != "mlpackage" { package.deleteLastPathComponent() }
        if compiled[package] == nil { compiled[package] = try await MLModel.compileModel(at: package) }
        let configuration = MLModelConfiguration()
        configuration.computeUnits = .cpuAndNeuralEngine
        if !width.function.isEmpty { configuration.functionName = width.function }
        let model = try await MLModel.load(contentsOf: compiled[package]!, configuration: configuration)
        models[graph] = model
        return model
    }

    /// The state for a graph, empty for a shard without states. After a step with another width, copies that width's state.
    private func stateOf(_ shard: Shard, _ graph: String, _ model: MLModel) -> MLState {
        let last = states[shard.name]
        if let last, last.graph == graph { return last.state }
        let state = model.makeState()  // zeros
        for port in shard.states {
            last?.state.withMultiArray(for: port.name) { from in
                state.withMultiArray(for: port.name) { to in from.transfer(to: to) }
            }
        }
        states[shard.name] = (graph, state)
        return state
    }

    /// [pages, 1, T, keys]: 0 for visible keys. A key is a row of the cache or, without a cache, a token of this step.
    private func attentionMask(_ binding: InputBinding, _ port: Port, _ count: Int) -> MLFeatureValue {
        let (tokens, keys) = (port.dims[2], port.dims[3])
        return port.feature((0..<port.dims.reduce(1, *)).map { index -> Float16 in
            let key = index / (tokens * keys) * keys + index % keys, query = position + index / keys % tokens
            let seen = key < position + count && key <= query + binding.ahead
                && (binding.window == 0 || key > query - binding.window)
                && (binding.chunk == 0 || key / binding.chunk == query / binding.chunk)
            return seen ? 0 : Float16(manifest.maskedValue)
        })
    }

    /// [pages, 1, rows, T]: 1 at the cache row of each new token.
    private func writeMask(_ port: Port, _ count: Int) -> MLFeatureValue {
        var scalars = [Float16](repeating: 0, count: port.dims.reduce(1, *))
        for token in 0..<count { scalars[(position + token) * port.dims[3] + token] = 1 }
        return port.feature(scalars)
    }

    /// A row of the table has the cosines, then the sines, of each rotation.
    private func rotations(_ binding: InputBinding, _ port: Port, _ count: Int) -> MLFeatureValue {
        let widths = manifest.rope!.widths, width = widths[binding.rotation]
        let first = 2 * widths[..<binding.rotation].reduce(0, +) + (binding.source == "rope_sin" ? width : 0)
        return port.pack((0..<count).map { rope!.row(position + $0, from: first, count: width) })
    }

    private func input(_ binding: InputBinding, _ port: Port, _ edges: [String: Rows], _ count: Int) throws -> MLFeatureValue {
        switch binding.source {
        case "edge": return port.pack(edges[binding.edge]!)
        case "rope_cos", "rope_sin": return rotations(binding, port, count)
        case "attn_mask": return attentionMask(binding, port, count)
        case "kv_write_mask": return writeMask(port, count)
        default: throw Unsupported(what: "the input source \(binding.source)")
        }
    }

    /// Runs a step for `count` tokens: reads inputs from `edges`, adds outputs there. Returns the slice of a head's logits.
    private func run(_ step: Step, _ edges: inout [String: Rows], _ count: Int) async throws -> Rows? {
        let shard = shards[step.shard]!
        let width = shard.widths.first { $0.tokens >= count }!
        let graph = "\(width.file.path)#\(width.function)"
        let model = try await load(width, graph)
        var features: [String: MLFeatureValue] = [:]
        for binding in step.inputs {
            features[binding.port] = try input(binding, width.inputs.first { $0.name == binding.port }!, edges, count)
        }
        let given = try MLDictionaryFeatureProvider(dictionary: features)
        let results = try await model.prediction(from: given, using: stateOf(shard, graph, model))
        var logits: Rows?
        for binding in step.outputs {
            let port = width.outputs.first { $0.name == binding.port }!
            let rows = try port.unpack(results.featureValue(for: binding.port), count: count)
            if binding.sink == "edge" { edges[binding.edge] = rows } else { logits = rows }
        }
        return logits
    }

    /// Runs new tokens, and returns their logits.
    func feed(_ tokens: [Int]) async throws -> Rows {
        let build = manifest.build, most = build.tokens.last!
        let limit = build.cache == "none" ? most : build.context
        guard position + tokens.count <= limit else { throw Unsupported(what: "texts above \(limit) tokens") }
        var logits: Rows = []
        for begin in stride(from: 0, to: tokens.count, by: most) {
            let chunk = tokens[begin..<min(begin + most, tokens.count)]
            var edges: [String: Rows] = ["embed": chunk.map { embedding.row($0, from: 0, count: embedding.table.columns) }]
            var slices: [String: Rows] = [:]
            for step in manifest.schedule { slices[step.shard] = try await run(step, &edges, chunk.count) }
            for token in 0..<chunk.count { logits.append(manifest.logits.slices.flatMap { slices[$0.shard]![token] }) }
            position += chunk.count
        }
        return logits
    }
}

// ---- Labels of tokens, in the schemes BIOES and BILOU. ----

struct Tag {
    let letter: String  // O, B, I, E or S
    let name: String

    init(_ label: Label) {
        let first = String(label.name.prefix(1))
        letter = first == "L" ? "E" : first == "U" ? "S" : first
        name = String(label.name.dropFirst(2))
    }

    var mayBegin: Bool { "OBS".contains(letter) }
    var mayEnd: Bool { "OES".contains(letter) }

    /// The bias of a transition; minus infinity if it is illegal.
    func bias(to next: Tag, _ biases: Tagging) -> Float {
        if mayEnd != next.mayBegin || !mayEnd && name != next.name { return -.infinity }
        if !mayEnd { return next.letter == "I" ? biases.insideToInside : biases.insideToEnd }
        if letter == "O" { return next.letter == "O" ? biases.stayOutside : biases.outsideToStart }
        return next.letter == "O" ? biases.endToOutside : biases.endToStart
    }
}

/// The legal sequence of labels with the largest sum of logits and biases. A log softmax would subtract the same number
/// from all logits of a token.
func bestLabels(_ logits: Rows, _ tags: [Tag], _ biases: Tagging) -> [Int] {
    var scores: [Float] = tags.indices.map { tags[$0].mayBegin ? Float(logits[0][$0]) : -.infinity }
    var choices: [[Int]] = []
    for row in logits.dropFirst() {
        var next: [Float] = [], chosen: [Int] = []
        for (label, tag) in tags.enumerated() {
            let sums: [Float] = tags.indices.map { scores[$0] + tags[$0].bias(to: tag, biases) }
            let best = sums.indices.max { sums[$0] < sums[$1] }!
            chosen.append(best)
            next.append(sums[best] + Float(row[label]))
        }
        choices.append(chosen)
        scores = next
    }
    var labels = [tags.indices.filter { tags[$0].mayEnd }.max { scores[$0] < scores[$1] }!]
    for chosen in choices.reversed() { labels.append(chosen[labels.last!]) }
    return labels.reversed()
}

@main
struct RunExport {
    static func main() async throws {
        let given = CommandLine.arguments
        guard given.count == 3, !given[2].isEmpty else { return print("usage: RunExport FOLDER TEXT") }
        let runner = try ShardRunner(folder: URL(filePath: given[1])), text = given[2].utf8.map { Int($0) }
        let made = try await runner.manifest.tagging == nil ? generate(text, runner, 60) : redact(text, runner)
        print(String(decoding: made, as: UTF8.self))
    }

    static func generate(_ prompt: [Int], _ runner: ShardRunner, _ count: Int) async throws -> [UInt8] {
        var tokens = prompt, made: [UInt8] = []
        for _ in 0..<count {
            let logits = try await runner.feed(tokens).last!
            let token = logits.indices.max { logits[$0] < logits[$1] }!
            if runner.manifest.model.eosTokens.contains(token) { break }
            made.append(UInt8(token))
            tokens = [token]
        }
        return made
    }

    /// The text with each span replaced by its class.
    static func redact(_ text: [Int], _ runner: ShardRunner) async throws -> [UInt8] {
        let biases = runner.manifest.tagging!, tags = biases.labels.map { Tag($0) }
        let labels = try await bestLabels(runner.feed(text), tags, biases)
        return zip(text, labels).flatMap { byte, label -> [UInt8] in
            let tag = tags[label]
            return tag.letter == "O" ? [UInt8(byte)] : tag.mayBegin ? Array("<\(tag.name.uppercased())>".utf8) : []
        }
    }
}

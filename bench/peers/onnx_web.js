// Times an ONNX model in onnxruntime-web, for bench/onnx.sh: prints a line `step SECONDS` for each step.
//
// usage: node onnx_web.js MODULE FILE BATCH THREADS STEPS
const fs = require('fs');
const ort = require(process.argv[2]);
const [batch, threads, steps] = process.argv.slice(4).map(Number);

async function main() {
    ort.env.wasm.numThreads = threads;
    ort.env.logLevel = 'fatal';
    const session = await ort.InferenceSession.create(fs.readFileSync(process.argv[3]), {logSeverityLevel: 4});
    const pixels = Float32Array.from({length: batch * 3 * 32 * 32}, (_, i) => (i * 40503 % 2003) / 1001 - 1);
    const images = new ort.Tensor('float32', pixels, [batch, 3, 32, 32]);
    for (let step = -2; step < steps; step++) { // two do not count
        const begin = process.hrtime.bigint();
        await session.run({[session.inputNames[0]]: images});
        if (step >= 0)
            console.log(`step ${(Number(process.hrtime.bigint() - begin) / 1e9).toFixed(6)}`);
    }
}

main().then(() => process.exit(0), (reason) => { console.error(String(reason)); process.exit(1); });
